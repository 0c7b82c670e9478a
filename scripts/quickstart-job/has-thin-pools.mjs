/** Exits 0 if this kernel has thin pools; else says what it lacks. */
import { createRequire } from 'node:module';

const addon = createRequire(import.meta.url)('../../build/Release/blockdelta.node');
const answer = addon.dmHasTarget({ type: 'thin-pool' });
if (!answer.ok || !answer.present) {
  console.log(`this kernel has no ${answer.ok ? 'dm-thin-pool' : 'device-mapper'}`);
  process.exitCode = 1;
}
