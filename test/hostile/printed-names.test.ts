/**
 * Names and ids that a caller, a catalogue or a backup brings, with what a terminal acts on or what ends a line: what
 * commands print of them, and what the log has.
 */
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before } from 'node:test';
import { newSnapshotId, newVolumeId, nodeKey } from '../../src/base/csi/handles.js';
import { progressText } from '../../src/cli/progress.js';
import { catalogueDefinition } from '../../src/driver/catalogue/sqlite-catalogue.js';
import { SoundDatabase } from '../../src/driver/database/sound-database.js';
import { encodeId, snapshotStem } from '../../src/tools/backup/file-names.js';
import { formatManifest } from '../../src/tools/backup/manifest.js';
import { escapeText } from '../../src/tools/markup.js';
import { testManifest } from '../support/backup-files.js';
import { runCommand } from '../support/command.js';
import { test } from '../support/running-plugin.js';
import { startServer, unaryService } from '../support/server-fixture.js';
import { Workspace } from '../support/workspace.js';

/** A clear screen, a title, a forged row, a mark of direction, both ends of lines of Unicode, zero width, DEL, CSI of C1. */
const NAME = 'a\x1b[2J\x1b]0;title\x07b\nforged  row\rc\u202Ed\u2028e\u2029f\u200Bg\x7Fh\u009B2Ji\u2066j\u{E0041}k';
const SHOWN = 'a?[2J?]0;title?b?forged  row?c?d?e?f?g?h?2Ji?j?k';
/** But for the ends of lines that are meant. */
const ACTIVE = /[^\P{C}\n]|[\u2028\u2029]/u;

let workspace: Workspace;
const state = (): string => workspace.path('state');
const repository = (): string => workspace.path('backups');

before(() => {
  workspace = new Workspace('printed-names');
  mkdirSync(state());
  const { connection, close } = open();
  const key = nodeKey('test-node');
  const volume = newVolumeId(key);
  connection.run("INSERT INTO pools (name, uuid) VALUES ('pool', 'x')");
  connection.run(
    `INSERT INTO volumes (volume_id, name, pool, size_bytes, state, parameters, created_mutable_parameters,
       mutable_parameters, capabilities, pristine, awaits_growth, created_ns)
     VALUES (?, ?, 'pool', 4096, 'ready', '{}', '{}', '{}', '[]', 0, 0, 1)`,
    volume,
    NAME,
  );
  connection.run(
    `INSERT INTO snapshots (snapshot_id, name, volume_id, pool, size_bytes, state, creation_time_ns, parameters, pristine)
     VALUES (?, ?, ?, 'pool', 4096, 'ready', 1, '{}', 0)`,
    newSnapshotId(key),
    NAME,
    volume,
  );
  close();
  writeFileSync(join(state(), 'unknown-objects.json'), JSON.stringify([{ pool: 'pool', id: NAME }]));
  const manifest = testManifest('s1', 1);
  const directory = join(repository(), encodeId(NAME));
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  const stem = snapshotStem(NAME, new Date(manifest.snapshot.creationTime));
  const image = { ...manifest.image, file: `${stem}.qcow2` };
  const text = formatManifest({
    ...manifest,
    volume: { ...manifest.volume, id: NAME },
    snapshot: { ...manifest.snapshot, id: NAME },
    image,
    reason: NAME,
  });
  writeFileSync(join(directory, `${stem}.json`), text);
  writeFileSync(join(directory, image.file), '12345');
});
after(() => workspace.dispose());

function open() {
  const database = SoundDatabase.open(catalogueDefinition(join(state(), 'catalogue.sqlite')));
  return { connection: database.connection, close: () => database.close() };
}

test('H37: no name acts on a terminal or forges a line of a table, and JSON has it unchanged', async (t) => {
  const env = { BLOCKDELTA_STATE_DIR: state(), BLOCKDELTA_POOLS: `pool=${workspace.path('no')}` };
  // The lines of each: a head, and one for what has the name; of the backup also that its image is none.
  const commands: readonly [args: string[], lines: number, code?: number][] = [
    [['volumes'], 2],
    [['snapshots'], 2],
    [['catalogue', 'unknown'], 1],
    [['backups', repository()], 3, 5],
    [['prune', repository(), '--keep-last', '1', '--dry-run'], 1],
  ];
  for (const [args, lines, expected = 0] of commands) {
    const { code, stdout, stderr } = await runCommand(t, args, env);
    assert.equal(code, expected, stderr);
    assert.doesNotMatch(stdout, ACTIVE, args.join());
    assert.ok(stdout.includes(SHOWN), stdout);
    assert.equal(stdout.trimEnd().split('\n').length, lines, stdout);
    if (args[0] === 'catalogue') continue;
    const json = await runCommand(t, [...args, '--json'], env);
    assert.doesNotMatch(json.stdout, ACTIVE);
    assert.ok(JSON.stringify(JSON.parse(json.stdout)).includes(JSON.stringify(NAME)));
  }
});

test('H37: a page and a line of progress show no control character of a name', () => {
  assert.equal(escapeText(NAME), SHOWN.replace('b?forged', 'b\nforged'));
  assert.equal(progressText({ share: null, text: NAME }, 200), SHOWN);
});

test('H37: the log has names escaped, and at most some hundred characters of each field of a request', async (t) => {
  const controller = unaryService('Controller', { CreateVolume: async () => ({}) });
  const made = await startServer(t, { services: [controller] });
  await made.client.controller.CreateVolume({ name: NAME });
  assert.doesNotMatch(made.logText(), ACTIVE);
  const [started] = made.log.filter((line) => line['msg'] === 'call started');
  assert.equal(started?.['name'], NAME);
  const before = made.logText().length;
  const large = 'n'.repeat(1 << 20);
  const many = Object.fromEntries(Array.from({ length: 10_000 }, (_, at) => [`key ${at}`, 'v']));
  await made.client.controller.CreateVolume({
    name: large,
    parameters: { ...many, [large]: large },
    volume_capabilities: Array.from({ length: 10_000 }, () => ({ mount: { fs_type: 'ext4' } })),
  });
  const grown = made.logText().length - before;
  assert.ok(grown > 1000 && grown < 32 << 10, `${grown} characters`);
  const request = made.log.filter((line) => line['msg'] === 'call started').at(-1)?.['request'];
  const { name, volume_capabilities } = request as { name: string; volume_capabilities: unknown[] };
  assert.equal(name, `${'n'.repeat(256)}... (1048576 characters)`);
  assert.equal(volume_capabilities.at(-1), '10000 elements');
});
