/** A process that runs `sleep 600` through the plugin's exec, for the test that kills it. */
import { run } from '../../../src/mount/exec.js';

process.stdout.write('RUNNING\n');
await run('sleep', ['600'], { timeoutMs: 600_000 });
