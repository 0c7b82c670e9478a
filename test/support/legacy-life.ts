/**
 * The life of a volume over CSI 0.3 or 0.1, as a list of steps that a test runs, repeats or interrupts. The
 * orchestrator makes the targets, as it does before v1, and what belongs together has the same fields in all steps.
 */
import assert from 'node:assert/strict';
import { closeSync, fsyncSync, openSync, readFileSync, readSync, writeSync } from 'node:fs';
import { mkdir, readdir, stat, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { blockCapability, type Message, mountCapability } from './csi-client.js';
import type { LegacyClient } from './legacy-client.js';
import { mountsBelow, type Workspace } from './workspace.js';

export type Access = 'mount' | 'block';

export interface Step {
  name: string;
  /** An RPC can be repeated, and answers the same. */
  isRpc: boolean;
  run(): Promise<unknown>;
}

const SIZE_BYTES = 48 << 20;
const TEXT = 'written before the snapshot';
const LATER = 'written after the snapshot!';

interface Held {
  id: string;
  target: string;
  staging: string;
}

export class LegacyLife {
  readonly steps: Step[] = [];
  readonly #capability: Message;
  #snapshotId = '';

  /** @param clientNow asked before each call, since a restarted plugin has another one */
  constructor(
    private readonly workspace: Workspace,
    private readonly clientNow: () => LegacyClient,
    private readonly access: Access,
    private readonly nodeId = 'test-node',
  ) {
    this.#capability = access === 'mount' ? mountCapability('ext4') : blockCapability();
    const { version } = clientNow();
    const volume = this.#hold(`life-${version}-${access}`);
    this.#used(volume, `${version}-${access}`, () => null);
    this.#step('write', async () => this.#write(volume, TEXT));
    if (version === '0.3') {
      this.#rpc('CreateSnapshot', () => ({ source_volume_id: volume.id, name: `s-${access}` }), {
        onAnswer: ({ snapshot }) => {
          assert.equal(snapshot.status.type, 'READY');
          assert.equal(snapshot.source_volume_id, volume.id);
          this.#snapshotId = snapshot.id;
        },
      });
      this.#step('write after the snapshot', async () => this.#write(volume, LATER));
      const restored = this.#hold(`restored-${access}`);
      this.#used(restored, `restored-${access}`, () => ({ snapshot: { id: this.#snapshotId } }));
      this.#step('the restored volume has the content of the snapshot', async () =>
        assert.equal(this.#read(restored), TEXT),
      );
      this.#released(restored);
      this.#rpc('DeleteSnapshot', () => ({ snapshot_id: this.#snapshotId }));
    }
    this.#step('the volume has what was written to it', async () =>
      assert.equal(this.#read(volume), version === '0.3' ? LATER : TEXT),
    );
    this.#released(volume);
  }

  #hold(name: string): Held {
    const path = (part: string) => this.workspace.path('old', name, part);
    return { id: '', target: path('target'), staging: path('staging') };
  }

  #step(name: string, run: () => Promise<unknown>): void {
    this.steps.push({ name, isRpc: false, run });
  }

  #rpc(
    rpc: string,
    request: () => Message,
    { onAnswer }: { onAnswer?: (answer: Message) => void } = {},
  ): void {
    this.steps.push({
      name: rpc,
      isRpc: true,
      run: async () => {
        const answer = await this.clientNow().call(rpc, request());
        onAnswer?.(answer);
        return answer;
      },
    });
  }

  /** Created, and published at a target that the orchestrator makes. */
  #used(held: Held, name: string, source: () => Message | null): void {
    const { version } = this.clientNow();
    const capability = this.#capability;
    this.#rpc(
      'CreateVolume',
      () => ({
        name,
        capacity_range: { required_bytes: String(SIZE_BYTES) },
        volume_capabilities: [capability],
        ...(version === '0.3' ? { volume_content_source: source() } : {}),
      }),
      {
        onAnswer: ({ volume, volume_info }) => {
          const created = (volume ?? volume_info) as Message;
          assert.equal(created['capacity_bytes'], String(SIZE_BYTES));
          held.id = created['id'];
        },
      },
    );
    const publication = () => ({
      volume_id: held.id,
      node_id: this.nodeId,
      volume_capability: capability,
    });
    this.#rpc('ControllerPublishVolume', publication);
    this.#step('the orchestrator makes its paths', () => this.#makePaths(held));
    const use = () => ({ volume_id: held.id, volume_capability: capability });
    if (version === '0.3') {
      this.#rpc('NodeStageVolume', () => ({ ...use(), staging_target_path: held.staging }));
    }
    this.#rpc('NodePublishVolume', () => ({
      ...use(),
      ...(version === '0.3' ? { staging_target_path: held.staging } : {}),
      target_path: held.target,
    }));
    this.#step('the volume is at the target', async () =>
      assert.ok(mountsBelow(dirname(held.target)).includes(held.target)),
    );
  }

  #released(held: Held): void {
    const { version } = this.clientNow();
    const { target, staging } = held;
    this.#rpc('NodeUnpublishVolume', () => ({ volume_id: held.id, target_path: target }));
    this.#step('the target is there and empty', async () => {
      const found = await stat(target);
      if (this.access === 'mount') assert.deepEqual(await readdir(target), []);
      else assert.ok(found.isFile() && found.size === 0);
      assert.ok(!mountsBelow(dirname(target)).includes(target));
    });
    if (version === '0.3') {
      this.#rpc('NodeUnstageVolume', () => ({
        volume_id: held.id,
        staging_target_path: staging,
      }));
    }
    this.#rpc('ControllerUnpublishVolume', () => ({ volume_id: held.id, node_id: this.nodeId }));
    this.#rpc('DeleteVolume', () => ({ volume_id: held.id }));
  }

  async #makePaths({ target, staging }: Held): Promise<void> {
    await mkdir(staging, { recursive: true });
    if (this.access === 'mount') await mkdir(target, { recursive: true });
    else await writeFile(target, '');
  }

  #place({ target }: Held): string {
    return this.access === 'mount' ? join(target, 'file') : target;
  }

  #write(held: Held, text: string): void {
    const file = openSync(this.#place(held), this.access === 'mount' ? 'w' : 'r+');
    try {
      writeSync(file, text);
      fsyncSync(file);
    } finally {
      closeSync(file);
    }
  }

  #read(held: Held): string {
    if (this.access === 'mount') return readFileSync(this.#place(held), 'utf8');
    const file = openSync(this.#place(held), 'r');
    try {
      const bytes = Buffer.alloc(TEXT.length);
      readSync(file, bytes, 0, bytes.length, 0);
      return bytes.toString();
    } finally {
      closeSync(file);
    }
  }
}
