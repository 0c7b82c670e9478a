/** Exits 0 if this kernel has thin pools; else says what it lacks. */
import { loadAddon } from '../../dist/driver/native/addon.js';

const answer = loadAddon().dmHasTarget({ type: 'thin-pool' });
if (!answer.ok || !answer.present) {
  console.log(`this kernel has no ${answer.ok ? 'dm-thin-pool' : 'device-mapper'}`);
  process.exitCode = 1;
}
