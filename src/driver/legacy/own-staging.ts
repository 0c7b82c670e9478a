/**
 * Publishing without staging, as in CSI v0.1: the first publication stages the volume in a directory of the
 * plugin, and the end of the last publication unstages it. After a kill at any point both calls can be
 * repeated. Knows no other paths and no mounts: v1 does the work.
 */
import { mkdir, rmdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { isVolumeId } from '../../base/csi/handles.js';
import { CsiError, errorCode, insteadOf, StatusCode } from '../../base/errors.js';
import type { Message, V1Calls } from './v1-calls.js';

export interface OwnStagingOptions {
  directory: string;
  /** The publications of the volume; each names the staging path that it uses. */
  publicationsOf(volumeId: string): Promise<readonly { readonly stagingPath: string }[]>;
}

/** The fields of a NodeStageVolume request without the staging path. */
type StageFields = Message;
interface Target {
  readonly target_path: string;
  readonly readonly: boolean;
}

export class OwnStaging {
  readonly #directory: string;
  readonly #publicationsOf: OwnStagingOptions['publicationsOf'];

  constructor({ directory, publicationsOf }: OwnStagingOptions) {
    this.#directory = directory;
    this.#publicationsOf = publicationsOf;
  }

  /**
   * Publishes first: a staged volume needs nothing more, and an invalid request changes nothing. FAILED_PRECONDITION
   * may mean that the staging is missing, so the method then stages the volume and publishes it again.
   */
  async publish(v1: V1Calls, use: StageFields, target: Target): Promise<void> {
    const volumeId = String(use['volume_id'] ?? '');
    const staging_target_path = this.#pathOf(volumeId);
    const fields = { ...use, ...target, staging_target_path };
    const refusal = await refusalOf(v1.call('NodePublishVolume', fields));
    if (refusal === null) return;
    if (refusal.code !== StatusCode.FAILED_PRECONDITION || !isVolumeId(volumeId)) throw refusal;
    await this.#make(staging_target_path);
    const unstaged = await refusalOf(v1.call('NodeStageVolume', { ...use, staging_target_path }));
    // An existing publication has staged the volume in another way.
    if (unstaged?.code === StatusCode.ALREADY_EXISTS) throw refusal;
    // Another call is at work, and may be staging the volume.
    if (unstaged?.code === StatusCode.ABORTED) throw unstaged;
    const unpublished = unstaged ?? (await refusalOf(v1.call('NodePublishVolume', fields)));
    if (unpublished === null) return;
    // The first failure is the one to report; a repeated call cleans up what this one could not.
    await refusalOf(this.#unstageUnused(v1, volumeId));
    throw unpublished;
  }

  async unpublish(v1: V1Calls, fields: { readonly volume_id: string; readonly target_path: string }): Promise<void> {
    await v1.call('NodeUnpublishVolume', fields);
    if (isVolumeId(fields.volume_id)) await this.#unstageUnused(v1, fields.volume_id);
  }

  /** A text that is not the id of a volume never becomes a path; the handlers refuse it. */
  #pathOf(volumeId: string): string {
    return isVolumeId(volumeId) ? join(this.#directory, volumeId) : this.#directory;
  }

  /** Unstages the volume if nothing is published from here any more. */
  async #unstageUnused(v1: V1Calls, volumeId: string): Promise<void> {
    const staging_target_path = this.#pathOf(volumeId);
    if (!(await exists(staging_target_path))) return;
    const publications = await this.#publicationsOf(volumeId);
    if (publications.some(({ stagingPath }) => stagingPath === staging_target_path)) return;
    await v1.call('NodeUnstageVolume', { volume_id: volumeId, staging_target_path });
    // Another publication may have begun meanwhile, or another call may have removed the directory.
    const mayStay = insteadOf(['ENOENT', 'EBUSY', 'ENOTEMPTY'], undefined);
    await rmdir(staging_target_path).catch(mayStay);
  }

  async #make(path: string): Promise<void> {
    try {
      await mkdir(path, { recursive: true, mode: 0o700 });
    } catch (thrown) {
      throw CsiError.failedPrecondition(
        `the staging directory ${path} cannot be made (${errorCode(thrown)}): set ` +
          'BLOCKDELTA_LEGACY_STAGING_DIR to a directory that the plugin can write',
        { cause: thrown },
      );
    }
  }
}

function refusalOf(call: Promise<unknown>): Promise<CsiError | null> {
  return call.then(() => null, CsiError.from);
}

async function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  );
}
