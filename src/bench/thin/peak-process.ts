/**
 * A process that does nothing but one scan, and tells by its exit what memory it took: the highest
 * resident memory before and after, from the kernel (VmHWM), with whatever is mapped.
 */
import { readFileSync } from 'node:fs';
import { loadAddon } from '../../src/native/addon.js';
import { scanOnce, thinSource } from './thin-scan.js';

export interface PeakMemory {
  beforeMiB: number;
  peakMiB: number;
}

function peakMiB(): number {
  const status = readFileSync('/proc/self/status', 'utf8');
  return Number(/^VmHWM:\s*(\d+) kB$/m.exec(status)?.[1]) / 1024;
}

const [metadata] = process.argv.slice(2);
if (metadata === undefined) throw new Error('started without a metadata file');
const addon = loadAddon();
const beforeMiB = peakMiB();
scanOnce(addon, thinSource(addon, metadata));
const answer: PeakMemory = { beforeMiB, peakMiB: peakMiB() };
process.stdout.write(JSON.stringify(answer));
