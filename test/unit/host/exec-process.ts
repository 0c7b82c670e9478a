/** A process that runs a shell script, which must not stop half way, through the plugin's exec: for the test that kills it. */
import { run } from '../../../src/base/process/exec.js';

const [script = '', locked = ''] = process.argv.slice(2);
await run('sh', ['-c', script], { outlivesLocking: locked });
