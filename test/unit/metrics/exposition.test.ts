import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Gauge, Registry } from 'prom-client';
import { Exposition } from '../../../src/metrics/exposition.js';
import { Readiness } from '../../../src/metrics/readiness.js';

test('many scrapes at once cost one collection, and so do those shortly after it', async () => {
  const registry = new Registry();
  const gauge = new Gauge({ name: 'collections', help: 'x', registers: [registry] });
  const exposition = new Exposition(registry, 60_000);
  exposition.add(async () => gauge.inc());
  const texts = await Promise.all(Array.from({ length: 50 }, () => exposition.text()));
  texts.push(await exposition.text());
  for (const text of texts) assert.match(text.toString(), /^collections 1$/m);
});

test('a text that has aged is collected again, and a failure is not kept', async () => {
  const registry = new Registry();
  const exposition = new Exposition(registry, 0);
  let collections = 0;
  exposition.add(async () => {
    collections += 1;
    if (collections === 2) throw new Error('no');
  });
  await exposition.text();
  await assert.rejects(exposition.text());
  await exposition.text();
  assert.equal(collections, 3);
});

test('readiness is what Probe says, asked once for many questions', async () => {
  let asked = 0;
  const failing = new Readiness(async () => {
    asked += 1;
    throw new Error("pool 'a' is gone");
  });
  const answers = await Promise.all([failing.notReady(), failing.notReady()]);
  answers.push(await failing.notReady());
  assert.deepEqual(answers, Array(3).fill("pool 'a' is gone"));
  assert.equal(asked, 1);
  assert.match(String(await new Readiness(async () => 'starting').notReady()), /starting/);
  assert.equal(await new Readiness(async () => 'ready').notReady(), null);
});
