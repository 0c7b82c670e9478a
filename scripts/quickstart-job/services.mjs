/** The processes that the job calls: plugins and routers, each with a socket and a log in a directory of its own. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { open, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { connect } from './client.mjs';

/** A plugin on a pool of its own. */
export function startPlugin(session, { directory, env, by }) {
  const settings = {
    BLOCKDELTA_STATE_DIR: join(directory, 'state'),
    BLOCKDELTA_EMBEDDED_POOL_SIZE: '8Gi',
    // Its callers are in its mount namespace.
    BLOCKDELTA_MOUNT_PROPAGATION: 'off',
    ...env,
  };
  return startService(session, { command: 'serve', name: 'plugin', directory, env: settings, by });
}

/**
 * Starts the service and waits until it is ready; throws with its log if that does not come. The session's undo ends it.
 *
 * @param by a program, with its arguments, that executes the service
 */
export async function startService(session, { command, name, directory, env, by = [] }) {
  const endpoint = `unix://${join(directory, 'csi.sock')}`;
  const logPath = join(directory, `${name}.log`);
  const log = await open(logPath, 'a');
  const [program, ...args] = [...by, process.execPath, session.program, command];
  const child = spawn(program, args, {
    env: { PATH: process.env.PATH, CSI_ENDPOINT: endpoint, ...env },
    stdio: ['ignore', 'ignore', log.fd],
    detached: true,
  });
  // Throws if there is no such program.
  await once(child, 'spawn').finally(() => log.close());
  const csi = connect(endpoint);
  session.services.push({ child, logPath });
  session.undo.push(async () => {
    csi.close();
    if (child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, 'exit');
    child.kill('SIGTERM');
    await ended;
  });
  await csi.waitReady(child).catch(async (error) => {
    throw new Error(`the ${name} ${error.message}\n${await readFile(logPath, 'utf8')}`);
  });
  const info = await csi.call('Identity', 'GetPluginInfo', {});
  return { child, csi, endpoint, logPath, version: `${info.name} ${info.vendor_version}` };
}
