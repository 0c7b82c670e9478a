/**
 * Publishing without staging, as CSI v0.1 has it: the volume is staged with its first publication, in a
 * directory of the plugin, and unstaged with its last one. After a kill at any point both calls can be
 * repeated. Knows no paths but those, and no mounts: v1 does the work.
 */
import { mkdir, rmdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { isVolumeId } from '../../base/csi/handles.js';
import { CsiError, errorCode, insteadOf, StatusCode } from '../../base/errors.js';
import type { Message, V1Calls } from './v1-calls.js';

export interface OwnStagingOptions {
  directory: string;
  /** What the volume is published from and at. */
  publicationsOf(volumeId: string): Promise<readonly { readonly stagingPath: string }[]>;
}

/** The fields of a NodeStageVolume but its path. */
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
   * Publishes first: if the volume is staged, nothing more is to be done, and a request that is wrong in
   * itself changes nothing. If the state is in the way, staging may be what is missing.
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
    // Staged in another way, by a publication that is there.
    if (unstaged?.code === StatusCode.ALREADY_EXISTS) throw refusal;
    // Another call is at work, which may be staging the volume.
    if (unstaged?.code === StatusCode.ABORTED) throw unstaged;
    const unpublished = unstaged ?? (await refusalOf(v1.call('NodePublishVolume', fields)));
    if (unpublished === null) return;
    // The first failure is the one to report; a repeated call cleans up what this one could not.
    await refusalOf(this.#unstageUnused(v1, volumeId));
    throw unpublished;
  }

  async unpublish(
    v1: V1Calls,
    fields: { readonly volume_id: string; readonly target_path: string },
  ): Promise<void> {
    await v1.call('NodeUnpublishVolume', fields);
    if (isVolumeId(fields.volume_id)) await this.#unstageUnused(v1, fields.volume_id);
  }

  /** What is not the id of a volume, the handlers refuse. It never becomes a path. */
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
    // Another publication may have begun meanwhile, or another call has removed it.
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
