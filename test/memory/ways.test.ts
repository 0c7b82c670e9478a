/**
 * The functions that docs/engineering/architecture.md lists between the socket and the backend are the asynchronous stack there: no
 * more than six, and none that the page does not have. The calls have no deadline: where one is watched, the stack of
 * V8 ends at the race with it.
 */
import assert from 'node:assert/strict';
import { relative } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { checkoutText } from '../support/checkout-text.js';
import { runMemoryPlugin } from '../support/memory-plugin.js';

const MOST = 6;
const running = runMemoryPlugin({});
/** Of the sources, compiled one by one. */
const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** A line `function   src/file.ts` for each function, from the socket on. */
function listed(heading: string): string[] {
  const [, section = ''] = checkoutText('docs/engineering/architecture.md').split(`\n### ${heading}\n`);
  const lines = (section.split('\n#')[0] ?? '').matchAll(/^ {4}(\w+) +(src\/\S+\.ts)(?: .*)?$/gm);
  return [...lines].map(([, name, file]) => `${name} ${file}`);
}

/** What awaits the caller of this function, from the socket on, without the caller itself. */
function stackHere(): string[] {
  const frames = (new Error('here').stack ?? '').matchAll(
    /^ +at (?:async )?(?:\w+\.)?#?(\w+) (?:\[as \w+\] )?\((?:file:\/\/)?(.*?):\d+:\d+\)$/gm,
  );
  return [...frames]
    .map(([, name, path = '']) => `${name} ${relative(ROOT, path).replace(/\.js$/, '.ts')}`)
    .filter((frame) => / src\//.test(frame))
    .reverse();
}

/** Replaces a method of the memory backend by one that remembers the stack. */
function watch<T extends object>(of: T, method: keyof T & string): () => string[] {
  let found: string[] = [];
  const called = of[method] as (...args: unknown[]) => unknown;
  const watched = (...args: unknown[]): unknown => {
    found = stackHere();
    return called(...args);
  };
  Object.assign(of, { [method]: watched });
  return () => found;
}

test('CreateSnapshot and GetMetadataDelta go the ways that docs/engineering/architecture.md lists', async () => {
  Error.stackTraceLimit = 64;
  const { snapshots, changes } = running.backend();
  const created = watch(snapshots, 'create');
  const scanned = watch(changes, 'scan');
  const { orchestrator, client } = running;
  const volume = await orchestrator.create('source');
  const take = async (name: string): Promise<string> => {
    const request = { source_volume_id: volume.id, name };
    const options = { deadlineMs: Number.POSITIVE_INFINITY };
    return (await client.controller.CreateSnapshot(request, options))['snapshot'].snapshot_id;
  };
  const base = await take('base');
  await client.delta(base, await take('target'));
  for (const [rpc, found] of [
    ['CreateSnapshot', created()],
    ['GetMetadataDelta', scanned()],
  ] as const) {
    const wanted = listed(rpc);
    assert.ok(wanted.length > 0 && wanted.length <= MOST, rpc);
    assert.deepEqual(found, wanted, rpc);
  }
});
