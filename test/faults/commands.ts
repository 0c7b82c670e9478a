/**
 * The part of the table that commands take: a command dies before each of its steps, is told to end, or loses its
 * programs or the plugin. What it leaves is no complete backup, and the next one finds everything that it needs to
 * clean up, and completes.
 */
import assert from 'node:assert/strict';
import type { ChildProcess } from 'node:child_process';
import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statfsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { newVolumeId, nodeKey } from '../../src/base/csi/handles.js';
import { DirectoryRepository } from '../../src/tools/backup/directory-repository.js';
import { verifyVolume } from '../../src/tools/backup/verify.js';
import { assertSame } from '../support/backups.js';
import { killChildren } from '../support/child-processes.js';
import { type Ended, runCommand, startCommand } from '../support/command.js';
import { attachAsPlugin, sparseFile } from '../support/loops.js';
import { MIB } from '../support/orchestrator.js';
import { writeAt } from '../support/write-at.js';
import type { Attempt, Failure, Operation } from './faults.js';
import type { Scene } from './scene.js';

/** Commands end by themselves. */
const ENDS_ITSELF = { after: () => undefined };

function environment(scene: Scene): Record<string, string> {
  return {
    CSI_ENDPOINT: `unix://${scene.workspace.path('plugin.sock')}`,
    BLOCKDELTA_RUNTIME_DIR: scene.workspace.path('runtime'),
    BLOCKDELTA_STATE_DIR: scene.workspace.path('plugin'),
    BLOCKDELTA_POOLS: `main=${scene.poolPath}`,
    RCLONE_CONFIG: scene.workspace.path('rclone.conf'),
  };
}

/** The command whose steps are counted. */
let current: ChildProcess | undefined;

/** Rejects unless it succeeds. */
async function command(scene: Scene, args: readonly string[], onOutput?: () => void): Promise<Ended> {
  const env = { ...environment(scene), ...scene.commandSteps.environment };
  const { child, ended } = startCommand(ENDS_ITSELF, args, env);
  current = child;
  if (onOutput !== undefined) child.stdout.on('data', onOutput);
  return succeeded(await ended);
}

/** One that prepares or checks, without faults. */
const undisturbed = (scene: Scene, ...args: string[]): Promise<Ended> =>
  runCommand(ENDS_ITSELF, args, environment(scene));

class CommandFailed extends Error {
  constructor(readonly ended: Ended) {
    super(`the command ended with ${ended.code ?? ended.signal}: ${ended.stderr}`);
  }
}

function succeeded(ended: Ended): Ended {
  if (ended.code !== 0) throw new CommandFailed(ended);
  return ended;
}

// What may happen to a command

const PROGRAM_FAILED = /(nbdkit|qemu-nbd|nbdcopy|qemu-img|rclone), started to |rclone could not /;

/** What starts when all else of a command runs. */
const COPIERS = { backup: 'qemu-img #2', copies: 'qemu-img #2', transfer: 'nbdcopy #1', programs: null };

function failuresAt(kinds: keyof typeof COPIERS) {
  return (scene: Scene, step: string): Failure[] => {
    const found: Failure[] = [];
    const add = (what: string, until: () => Promise<void>, judge: Failure['judge']): void => {
      found.push({ what, fault: { step, does: 'wait', until }, judge });
    };
    const program = /^exec .*\/([^/]+) #\d+$/.exec(step)?.[1];
    const copier = COPIERS[kinds];
    const isCopy = copier !== null && step.endsWith(`/${copier}`);
    const failed = fails(scene, [1, 5, 8], PROGRAM_FAILED);
    // What an rclone that dies has not compared, another one does. The first two are asked for the configuration, and serve.
    const dead = program === 'rclone' && !/ #[12]$/.test(step) ? unlessDone(failed) : failed;
    if (program !== undefined) {
      found.push({ what: 'the program dies', fault: { step, does: 'die alone' }, judge: dead });
    }
    for (const server of isCopy && kinds === 'transfer' ? ['nbdkit', 'qemu-nbd'] : []) {
      add(`${server} dies`, async () => killChildren(current, server), failed);
    }
    if (program === undefined || isCopy) {
      // A second signal would end it at once.
      const stop = async (): Promise<void> => void (current?.killed || current?.kill('SIGTERM'));
      add('the command is told to end', stop, unlessDone(fails(scene, [130], /^/)));
    }
    if (!isCopy) return found;
    const restart = async (): Promise<void> => {
      await scene.kill();
      await scene.start();
    };
    // It may go on, or fail and leave its volume to the next one.
    add('the plugin dies', restart, async () => undefined);
    if (kinds !== 'backup') return found;
    const another = async (): Promise<void> => {
      const args = ['backup', snapshotOf(scene, 2), '--to', repositoryOf(scene)];
      const { code, stderr } = await undisturbed(scene, ...args);
      assert.equal(code, 1);
      assert.match(stderr, /another command is writing backups of volume .*\.lock/);
    };
    add('another command begins', another, (call) => call.then(() => undefined));
    const filler = scene.workspace.path('backups', 'filler');
    const fill = async (): Promise<void> => {
      const { bavail, bsize } = statfsSync(scene.workspace.path('backups'));
      execFileSync('fallocate', ['--length', String(bavail * bsize), filler]);
    };
    const full = fails(scene, [1], /no space left for the backup in .*: \d+ bytes are free/);
    add('the destination is full', fill, async (call) => {
      rmSync(filler);
      await full(call);
    });
    return found;
  };
}

/** What is complete already is no failure. */
const unlessDone =
  (judge: Failure['judge']): Failure['judge'] =>
  (call) =>
    call.then(
      () => undefined,
      () => judge(call),
    );

/** With such a code and message, and with nothing left. */
function fails(scene: Scene, codes: readonly number[], message: RegExp): Failure['judge'] {
  return async (call) => {
    const thrown = await call.catch((reason: unknown) => reason);
    assert.ok(thrown instanceof CommandFailed, 'it has succeeded');
    assert.ok(codes.includes(thrown.ended.code ?? -1), thrown.message);
    assert.match(thrown.ended.stderr, message);
    assertNothingKept(scene);
    assertNothingUnfinished(scene);
    await scene.objects.check();
  };
}

/** No command runs, so nothing may be there. */
function assertNothingKept(scene: Scene): void {
  const directory = scene.workspace.path('runtime');
  if (existsSync(directory)) assert.deepEqual(readdirSync(directory), []);
}

function assertNothingUnfinished(scene: Scene): void {
  const directory = repositoryOf(scene);
  if (!existsSync(directory)) return;
  const names = readdirSync(directory, { recursive: true, encoding: 'utf8' });
  const unfinished = names.filter((name) => /\.(?:partial|next|removed)$/.test(name));
  assert.deepEqual(unfinished, []);
}

// Backups of the resident, on a file system of their own, made once and copied for each attempt

/** Of the resident, each after some writes. */
const snapshots = new WeakMap<Scene, readonly string[]>();
const SNAPSHOTS = 3;

const repositoryOf = (scene: Scene): string => scene.workspace.path('backups', 'repository');
/** Of the commands that write to it as a remote. */
const spoolOf = (scene: Scene): string => scene.workspace.path('spool');
/** A repository with backups of the first so many snapshots. */
const templateOf = (scene: Scene, backups: number): string => scene.workspace.path(`template-${backups}`);

const snapshotOf = (scene: Scene, index: number): string => snapshots.get(scene)?.[index] as string;

export async function makeBackups(scene: Scene): Promise<void> {
  const { contents, volume } = scene.resident('block');
  const taken: string[] = [];
  mkdirSync(scene.workspace.path('backups'));
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=64m', 'none', scene.workspace.path('backups')]);
  for (let count = 1; count <= SNAPSHOTS; count += 1) {
    await contents.work(volume.targetPath, scene.random);
    const id = await scene.snapshot(volume);
    taken.push(id);
    if (count > 1) cpSync(templateOf(scene, count - 1), templateOf(scene, count), { recursive: true });
    succeeded(await undisturbed(scene, 'backup', id, '--to', templateOf(scene, count)));
  }
  snapshots.set(scene, taken);
}

/** The plugin goes on, and a command is not started again but repeated. */
const BY_COMMAND: Pick<Operation, 'steps' | 'recover'> = {
  steps: (scene) => scene.commandSteps,
  recover: async () => undefined,
};

/** On a repository with that many backups. */
function onRepository(
  name: string,
  backups: number,
  kinds: keyof typeof COPIERS,
  attempt: (scene: Scene, repository: string) => Omit<Attempt, 'undo'>,
): Operation {
  return {
    ...BY_COMMAND,
    name,
    failuresAt: failuresAt(kinds),
    prepare: async (scene) => {
      const directory = repositoryOf(scene);
      if (backups > 0) cpSync(templateOf(scene, backups), directory, { recursive: true });
      const { check, ...rest } = attempt(scene, directory);
      return {
        ...rest,
        check: async (answer) => {
          assertNothingKept(scene);
          assertNothingUnfinished(scene);
          await check?.(answer);
        },
        undo: async () => {
          for (const made of [directory, spoolOf(scene)]) rmSync(made, { recursive: true, force: true });
        },
      };
    },
  };
}

/** The file that holds what the snapshot has. */
function truthOf(scene: Scene, index: number): string {
  return join(scene.poolPath, 'snapshots', snapshotOf(scene, index));
}

/** What is there is sound, and the image of the snapshot has its bytes. */
async function verify(scene: Scene, index: number, backups: number): Promise<void> {
  const { signal } = new AbortController();
  const directory = repositoryOf(scene);
  for (const volume of await (await DirectoryRepository.open(directory)).all()) {
    assert.deepEqual(await verifyVolume(volume, { signal }), []);
  }
  const path = join(directory, scene.resident('block').volume.id);
  const names = readdirSync(path);
  assert.equal(names.filter((name) => name.endsWith('.json')).length, backups, names.join());
  const images = names.filter((name) => name.endsWith('.qcow2'));
  assert.equal(images.length, backups, names.join());
  const image = images.find((name) => name.includes(snapshotOf(scene, index)));
  await assertSame(truthOf(scene, index), join(path, String(image)));
}

/** Of the snapshot after those that have a backup. */
function backup(method: 'full' | 'delta', backups: number): Operation {
  return onRepository(`backup, ${method}`, backups, 'backup', (scene, repository) => ({
    // The temporary volume, until the call is repeated.
    makes: 1,
    call: () => command(scene, ['backup', snapshotOf(scene, backups), '--to', repository, '--json']),
    check: async (answer) => {
      assert.equal(JSON.parse((answer as Ended).stdout).method, method);
      await verify(scene, backups, backups + 1);
    },
  }));
}

/** The repository as a remote of rclone: its files are the objects. The spool is somewhere else. */
const remoteOf = (scene: Scene): string => {
  const configuration = scene.workspace.path('rclone.conf');
  writeFileSync(configuration, `[objects]\ntype = alias\nremote = ${repositoryOf(scene)}\n`, { mode: 0o600 });
  return 'rclone:objects:';
};
/** A backup, of the snapshot after those that have one, at a remote. What waits in the spool after a kill is sent by the next one. */
export const REMOTE_BACKUP: Operation = onRepository('backup at a remote', 1, 'copies', (scene) => ({
  makes: 1,
  call: () =>
    command(scene, ['backup', snapshotOf(scene, 1), '--to', remoteOf(scene), '--spool', spoolOf(scene), '--json']),
  check: async () => {
    await verify(scene, 1, 2);
    assertNoImages(spoolOf(scene));
  },
}));

function assertNoImages(spool: string): void {
  const left = readdirSync(spool, { recursive: true, encoding: 'utf8' });
  assert.deepEqual(
    left.filter((name) => name.includes('.qcow2')),
    [],
  );
}

export const REMOTE_PRUNE: Operation = onRepository('prune at a remote', 3, 'programs', (scene) => ({
  call: () => command(scene, ['prune', remoteOf(scene), '--keep-last', '1', '--spool', spoolOf(scene)]),
  check: () => verify(scene, 2, 1),
}));

export const FULL_BACKUP = backup('full', 0);
export const INCREMENTAL_BACKUP = backup('delta', 1);

/** Of all snapshots that have none. What fails in one of them is the same as in a backup of that one. */
export const MANY_BACKUPS: Operation = {
  ...onRepository('backup of all snapshots', 1, 'backup', (scene, repository) => ({
    makes: 1,
    call: () => command(scene, ['backup', '--all', '--to', repository, '--metrics', join(repository, 'metrics.prom')]),
    check: async () => {
      assert.match(
        readFileSync(join(repository, 'metrics.prom'), 'utf8'),
        /\nblockdelta_backup_failures\{volume=".*"\} 0\n/,
      );
      await verify(scene, 1, SNAPSHOTS);
      await verify(scene, 2, SNAPSHOTS);
    },
  })),
  onlyKills: true,
};

export const RESTORE_TO_FILE: Operation = onRepository('restore to a file', 2, 'programs', (scene, repository) => {
  const file = join(repository, 'restored');
  return {
    call: () => command(scene, ['restore', repository, '--to', file, '--force']),
    check: async () => assert.ok(readFileSync(file).equals(readFileSync(truthOf(scene, 1)))),
  };
});

export const RESTORE_TO_VOLUME: Operation = onRepository(
  'restore to a new volume',
  1,
  'copies',
  (scene, repository) => ({
    makes: 1,
    call: () => command(scene, ['restore', repository, '--to', 'volume:copy', '--json']),
    check: async (answer) => {
      const { target } = JSON.parse((answer as Ended).stdout) as { target: string };
      const residents = scene.residents.map(({ volume }) => volume.id);
      const made = await scene.orchestrator.volumeIds();
      assert.ok(made.includes(target));
      // Also one that was complete when the command was killed, before it could say so.
      for (const volume of made.filter((id) => !residents.includes(id))) {
        const bytes = readFileSync(join(scene.poolPath, 'volumes', volume));
        assert.ok(bytes.equals(readFileSync(truthOf(scene, 0))), volume);
        await scene.client.controller.DeleteVolume({ volume_id: volume });
      }
    },
  }),
);

/** The resident gets what its last snapshot has. What a command that does not succeed leaves is the snapshot of before, at most. */
export const RESTORE_IN_PLACE: Operation = {
  ...onRepository('restore in place', SNAPSHOTS, 'transfer', () => ({ call: async () => undefined })),
  failuresAt: (scene, step) =>
    failuresAt('transfer')(scene, step).map(({ what, fault }) => ({
      what,
      fault,
      judge: async (call) => {
        const thrown = await call.then(
          () => undefined,
          (reason: unknown) => reason,
        );
        if (thrown === undefined) return;
        assert.ok(thrown instanceof CommandFailed, String(thrown));
        assert.ok([1, 5, 6, 130].includes(thrown.ended.code ?? -1), thrown.message);
        assertNothingUnfinished(scene);
        await scene.objects.check({ makes: 1 });
      },
    })),
  prepare: async (scene) => {
    const { volume } = scene.resident('block');
    const operation = onRepository('restore in place', SNAPSHOTS, 'transfer', (_scene, repository) => ({
      makes: 1,
      call: () => command(scene, ['restore', repository, '--snapshot', snapshotOf(scene, SNAPSHOTS - 1), '--in-place']),
      check: async () => {
        const bytes = readFileSync(join(scene.poolPath, 'volumes', volume.id));
        assert.ok(bytes.equals(readFileSync(truthOf(scene, SNAPSHOTS - 1))), 'the content');
        // Nothing keeps it from being used.
        await scene.orchestrator.bringUp(volume);
      },
    }));
    for (const at of [MIB, 5 * MIB]) writeAt(volume.targetPath, at, scene.random.bytes(65_536));
    await scene.orchestrator.takeDown(volume);
    return operation.prepare(scene);
  },
};

export const PRUNE: Operation = onRepository('prune', 3, 'programs', (scene, repository) => ({
  call: () => command(scene, ['prune', repository, '--keep-last', '1']),
  check: () => verify(scene, 2, 1),
}));

/** The newest of three becomes full, and the others stay. */
export const COMPACT: Operation = onRepository('compact', 3, 'programs', (scene, repository) => ({
  call: () => command(scene, ['compact', repository]),
  check: () => verifyCompacted(scene, 3),
}));

/** The newest of three becomes full, and its base goes, which it would get another image for in any case. */
export const PRUNE_COMPACT: Operation = onRepository('prune --compact', 3, 'programs', (scene, repository) => ({
  call: () => command(scene, ['prune', repository, '--keep-last', '2', '--compact', '1']),
  check: () => verifyCompacted(scene, 2),
}));

/** The image that waits in the spool after a kill is sent by the next one. */
export const REMOTE_COMPACT: Operation = onRepository('compact at a remote', 3, 'programs', (scene) => ({
  call: () => command(scene, ['compact', remoteOf(scene), '--spool', spoolOf(scene)]),
  check: async () => {
    await verifyCompacted(scene, 3);
    assertNoImages(spoolOf(scene));
  },
}));

async function verifyCompacted(scene: Scene, backups: number): Promise<void> {
  await verify(scene, 2, backups);
  const [volume] = await (await DirectoryRepository.open(repositoryOf(scene))).all();
  assert.equal(volume?.backups.at(-1)?.manifest.base, null);
}

/** From its start until it is told to end. */
export const NBD: Operation = onRepository('nbd', 0, 'programs', (scene) => {
  const socket = scene.workspace.path('export.sock');
  const args = ['nbd', snapshotOf(scene, 0), '--socket', socket];
  return {
    makes: 1,
    // The URI says that it serves.
    call: () => command(scene, args, () => current?.killed || current?.kill('SIGTERM')),
    check: async () => assert.equal(existsSync(socket), false),
  };
});

// The node's own state

/** The plugin is stopped, and started when nothing is left. */
export const COLLECT: Operation = {
  ...BY_COMMAND,
  name: 'gc --apply',
  onlyKills: true,
  prepare: async (scene) => {
    await scene.kill();
    // What the plugin has left in the log of its catalogue differs, and is checkpointed.
    succeeded(await undisturbed(scene, 'gc', '--apply'));
    const [unfinished, removed] = [`${newVolumeId(nodeKey('test-node'))}.tmp`, newVolumeId(nodeKey('test-node'))].map(
      (name) => join(scene.poolPath, 'volumes', name),
    ) as [string, string];
    sparseFile(unfinished, 8 * MIB);
    attachAsPlugin(sparseFile(removed, 8 * MIB));
    rmSync(removed);
    const assertCollected = (): void => assert.equal(existsSync(unfinished), false);
    return {
      call: async () => {
        if (!scene.isRunning) await command(scene, ['gc', '--apply']);
      },
      whileDead: async () => {
        succeeded(await undisturbed(scene, 'gc', '--apply'));
        assertCollected();
        await scene.start();
      },
      check: async () => assertCollected(),
      undo: async () => {
        if (!scene.isRunning) await scene.start();
      },
    };
  },
};

/** What a start has found stands in a file. */
export const CONFIRM: Operation = {
  ...BY_COMMAND,
  name: 'catalogue confirm',
  onlyKills: true,
  prepare: async (scene) => {
    const [found, confirmed] = ['unknown-objects.json', 'confirmed-objects.json'].map((name) =>
      scene.workspace.path('plugin', name),
    ) as [string, string];
    const objects = [{ pool: 'main', id: newVolumeId(nodeKey('test-node')) }];
    writeFileSync(found, JSON.stringify(objects));
    return {
      call: () => command(scene, ['catalogue', 'confirm']),
      check: async () => {
        assert.deepEqual(JSON.parse(readFileSync(confirmed, 'utf8')), objects);
      },
      undo: async () => {
        for (const file of [found, confirmed]) rmSync(file);
      },
    };
  },
};
