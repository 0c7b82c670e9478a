/** A raw volume whose clone takes long, because its file has many extents. Nobody writes to it. */
import { open } from 'node:fs/promises';
import type { HeldVolume, Orchestrator } from './orchestrator.js';

const BLOCK_BYTES = 4096;

/** Brought up. Every other block of it is written, so that each is an extent. */
export async function makeSlowVolume(
  orchestrator: Orchestrator,
  name: string,
  extents: number,
): Promise<HeldVolume> {
  const volume = await orchestrator.create(name, { sizeBytes: 2 * extents * BLOCK_BYTES });
  const device = await open(await orchestrator.bringUp(volume), 'r+');
  const block = Buffer.alloc(BLOCK_BYTES, 1);
  for (let index = 0; index < extents; index += 1) {
    await device.write(block, 0, BLOCK_BYTES, 2 * index * BLOCK_BYTES);
  }
  await device.sync();
  await device.close();
  return volume;
}
