/**
 * A process that does nothing but one scan of metadata, and prints what memory it took: the highest resident memory
 * before and after, from the kernel (VmHWM), with whatever is mapped. Its arguments: the metadata and the volumes' size.
 */
import { loadAddon } from '../../../src/driver/native/addon.js';
import { ProcessMeter } from '../process-meter.js';
import { scanOnce, thinSource } from './scan.js';

export interface PeakMemory {
  beforeMiB: number;
  peakMiB: number;
}

const [path, volumeBytes] = process.argv.slice(2);
if (path === undefined || volumeBytes === undefined) {
  throw new Error('started without the metadata and the size of its volumes');
}
const addon = loadAddon();
const meter = new ProcessMeter(process.pid);
const beforeMiB = meter.peakMiB();
scanOnce(addon, thinSource(addon, { path, volumeBytes: BigInt(volumeBytes) }));
const answer: PeakMemory = { beforeMiB, peakMiB: meter.peakMiB() };
process.stdout.write(JSON.stringify(answer));
