/** What `blockdelta doctor` finds at the socket of a plugin. */
import { statSync } from 'node:fs';
import { SETTINGS } from '../../driver/config/config.js';
import type { CheckResult, DoctorContext, Finding } from '../../driver/inspection/doctor-checks.js';
import { probeReady } from '../../tools/client/csi-driver.js';
import { socketProblem } from '../socket.js';

export async function checkSocket({ socketPath, env, plugin }: DoctorContext): Promise<CheckResult> {
  if (socketPath === null) {
    return { detail: 'no endpoint is given: set CSI_ENDPOINT or use --endpoint', skipped: true, findings: [] };
  }
  const problem = await socketProblem(socketPath);
  if (problem !== null) {
    const { message } = problem;
    const found = plugin === null ? `${message} (no plugin holds the catalogue)` : message;
    const remedy = 'see docs/errors.md, "The socket"';
    return { detail: socketPath, findings: [{ found, remedy }] };
  }
  const findings: Finding[] = [];
  const wanted = Number.parseInt(env['BLOCKDELTA_SOCKET_MODE'] || SETTINGS.BLOCKDELTA_SOCKET_MODE.fallback, 8);
  const mode = statSync(socketPath).mode & 0o777;
  if ((mode & ~wanted) !== 0) {
    findings.push({
      found: `the socket ${socketPath} has mode ${mode.toString(8)}, more than ${wanted.toString(8)}`,
      remedy: `chmod ${wanted.toString(8)} ${socketPath}: whoever can write to it controls all volumes`,
    });
  }
  const answer = await probeReady(socketPath);
  if (answer !== null) {
    findings.push({
      found: `the plugin is not ready: ${answer}`,
      remedy: 'do what the message says',
    });
  }
  return { detail: socketPath, findings };
}
