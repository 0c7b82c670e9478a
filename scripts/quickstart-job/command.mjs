/** The plugin's own commands, as an operator runs them, with their output. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';

/** Shows each line of stdout and resolves to all of it. Throws with what the command said if it fails. */
export async function runCommand({ program, endpoint }, args, show) {
  const child = spawn(process.execPath, [program, ...args], {
    env: { PATH: process.env.PATH, CSI_ENDPOINT: endpoint, LANG: 'C.UTF-8', COLUMNS: '75' },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const output = { stdout: '', stderr: '' };
  for (const name of ['stdout', 'stderr']) {
    child[name].setEncoding('utf8').on('data', (text) => {
      output[name] += text;
    });
  }
  const [code] = await once(child, 'close');
  for (const line of output.stdout.trimEnd().split('\n')) show(line);
  if (code !== 0) throw new Error(`blockdelta ${args.join(' ')} ended with ${code}: ${output.stderr.trim()}`);
  return output.stdout;
}
