/**
 * A process that runs `sleep 600`, or the shell script it is given and the file to lock, through the plugin's exec: for the
 * tests that kill it.
 */
import { run } from '../../../src/host/exec.js';

process.stdout.write('RUNNING\n');
const [script, locked] = process.argv.slice(2);
if (script === undefined || locked === undefined)
  await run('sleep', ['600'], { timeoutMs: 600_000 });
else await run('sh', ['-c', script], { outlivesLocking: locked });
