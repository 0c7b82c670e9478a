/**
 * The part of the table that commands take: a command dies before each of its steps, and the next one must find
 * everything that it needs to clean up, and complete.
 */
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { Repository } from '../../src/backup/repository.js';
import { verifyVolume } from '../../src/backup/verify.js';
import { assertSame } from '../support/backups.js';
import { type Ended, endOf, runCommand, startCommand } from '../support/command.js';
import type { HeldVolume } from '../support/orchestrator.js';
import type { Attempt, Operation } from './faults.js';
import type { Scene } from './scene.js';

/** Commands end by themselves. */
const ENDS_ITSELF = { after: () => undefined };

function environment(scene: Scene): Record<string, string> {
  return {
    CSI_ENDPOINT: `unix://${scene.workspace.path('plugin.sock')}`,
    BLOCKDELTA_RUNTIME_DIR: scene.workspace.path('runtime'),
  };
}

/** A command whose steps are counted. Rejects unless it succeeds. */
async function command(scene: Scene, ...args: string[]): Promise<Ended> {
  const env = { ...environment(scene), ...scene.commandSteps.environment };
  return succeeded(await runCommand(ENDS_ITSELF, args, env));
}

/** One that prepares or checks, without faults. */
async function undisturbed(scene: Scene, ...args: string[]): Promise<Ended> {
  return succeeded(await runCommand(ENDS_ITSELF, args, environment(scene)));
}

function succeeded(ended: Ended): Ended {
  if (ended.code === 0) return ended;
  throw new Error(`the command ended with ${ended.code ?? ended.signal}: ${ended.stderr}`);
}

type CommandOperation = Pick<Operation, 'steps' | 'recover'>;

/** The plugin goes on, and a command is not started again but repeated. */
const BY_COMMAND: CommandOperation = {
  steps: (scene) => scene.commandSteps,
  recover: async () => undefined,
};

/** Backups of a resident, in a directory that lasts for one attempt. */
class Backups {
  readonly directory: string;
  readonly snapshots: string[] = [];

  constructor(private readonly scene: Scene) {
    this.directory = scene.workspace.path('backups');
  }

  get #volume(): HeldVolume {
    return this.scene.resident('block').volume;
  }

  /** Of the resident as it is then, after some writes. */
  async snapshot(): Promise<string> {
    const { scene } = this;
    await scene.resident('block').contents.work(this.#volume.targetPath, scene.random);
    const id = await scene.snapshot(this.#volume);
    this.snapshots.push(id);
    return id;
  }

  async backedUp(): Promise<string> {
    const id = await this.snapshot();
    await undisturbed(this.scene, 'backup', id, '--to', this.directory);
    return id;
  }

  /** The file that holds what a snapshot has. */
  truthOf(snapshotId: string): string {
    return join(this.scene.poolPath, 'snapshots', snapshotId);
  }

  /** What is there is sound, restores to the bytes of the snapshot, and nothing unfinished is beside it. */
  async verify(snapshotId: string, backups: number): Promise<void> {
    const { signal } = new AbortController();
    for (const volume of await new Repository(this.directory).all()) {
      assert.deepEqual(await verifyVolume(volume, { signal }), []);
    }
    const names = readdirSync(join(this.directory, this.#volume.id));
    assert.equal(names.filter((name) => name.endsWith('.json')).length, backups, names.join());
    assert.equal(names.filter((name) => name.endsWith('.qcow2')).length, backups, names.join());
    assert.deepEqual(
      names.filter((name) => /\.(?:partial|next)$/.test(name)),
      [],
    );
    const image = names.filter((name) => name.includes(snapshotId) && name.endsWith('.qcow2'));
    const path = join(this.directory, this.#volume.id, String(image[0]));
    await assertSame(this.truthOf(snapshotId), path);
  }

  async remove(): Promise<void> {
    rmSync(this.directory, { recursive: true, force: true });
    for (const id of this.snapshots) await this.scene.deleteSnapshot(id);
  }
}

/** No command runs, so nothing may be there. */
function assertNothingKept(scene: Scene): void {
  const directory = scene.workspace.path('runtime');
  if (existsSync(directory)) assert.deepEqual(readdirSync(directory), []);
}

function backup(kind: 'full' | 'delta'): Operation {
  return {
    ...BY_COMMAND,
    name: `backup, ${kind}`,
    prepare: async (scene): Promise<Attempt> => {
      const repository = new Backups(scene);
      if (kind === 'delta') await repository.backedUp();
      const id = await repository.snapshot();
      return {
        // The temporary volume, until the call is repeated.
        makes: 1,
        call: () => command(scene, 'backup', id, '--to', repository.directory, '--json'),
        check: async (answer) => {
          const { method } = JSON.parse((answer as Ended).stdout) as { method: string };
          assert.equal(method, kind);
          assertNothingKept(scene);
          await repository.verify(id, repository.snapshots.length);
        },
        undo: () => repository.remove(),
      };
    },
  };
}

export const FULL_BACKUP = backup('full');
export const INCREMENTAL_BACKUP = backup('delta');

export const RESTORE_TO_FILE: Operation = {
  ...BY_COMMAND,
  name: 'restore to a file',
  prepare: async (scene) => {
    const repository = new Backups(scene);
    await repository.backedUp();
    const id = await repository.backedUp();
    const file = join(repository.directory, 'restored');
    const args = ['restore', repository.directory, '--to', file, '--force'];
    return {
      call: () => command(scene, ...args),
      check: async () => {
        assert.ok(readFileSync(file).equals(readFileSync(repository.truthOf(id))));
        assert.equal(existsSync(`${file}.partial`), false);
      },
      undo: () => repository.remove(),
    };
  },
};

export const RESTORE_TO_VOLUME: Operation = {
  ...BY_COMMAND,
  name: 'restore to a new volume',
  prepare: async (scene) => {
    const repository = new Backups(scene);
    const id = await repository.backedUp();
    const args = ['restore', repository.directory, '--to', 'volume:copy', '--json'];
    return {
      makes: 1,
      call: () => command(scene, ...args),
      check: async (answer) => {
        const { target } = JSON.parse((answer as Ended).stdout) as { target: string };
        const residents = scene.residents.map(({ volume }) => volume.id);
        const made = await scene.orchestrator.volumeIds();
        assert.ok(made.includes(target));
        // Also one that was complete when the command was killed, before it could say so.
        for (const volume of made.filter((id) => !residents.includes(id))) {
          const bytes = readFileSync(join(scene.poolPath, 'volumes', volume));
          assert.ok(bytes.equals(readFileSync(repository.truthOf(id))), volume);
          await scene.client.controller.DeleteVolume({ volume_id: volume });
        }
        assertNothingKept(scene);
      },
      undo: () => repository.remove(),
    };
  },
};

export const PRUNE: Operation = {
  ...BY_COMMAND,
  name: 'prune',
  prepare: async (scene) => {
    const repository = new Backups(scene);
    for (let count = 0; count < 2; count += 1) await repository.backedUp();
    const id = await repository.backedUp();
    return {
      call: () => command(scene, 'prune', repository.directory, '--keep-last', '1'),
      check: () => repository.verify(id, 1),
      undo: () => repository.remove(),
    };
  },
};

/** From its start until it is told to end. */
export const NBD: Operation = {
  ...BY_COMMAND,
  name: 'nbd',
  prepare: async (scene) => {
    const repository = new Backups(scene);
    const id = await repository.snapshot();
    const socket = scene.workspace.path('export.sock');
    const serve = async (): Promise<Ended> => {
      const env = { ...environment(scene), ...scene.commandSteps.environment };
      const { child, output } = startCommand(ENDS_ITSELF, ['nbd', id, '--socket', socket], env);
      // The URI says that it serves.
      child.stdout.on('data', () => child.kill('SIGTERM'));
      return succeeded(await endOf(child, output));
    };
    return {
      makes: 1,
      call: serve,
      check: async () => {
        assertNothingKept(scene);
        assert.equal(existsSync(socket), false);
      },
      undo: () => repository.remove(),
    };
  },
};
