/** The option --endpoint of the commands that are clients, and its default. */
import type { Command } from 'commander';
import { parseClientEndpoint } from '../tools/client/endpoint.js';

/**
 * The socket path of the given endpoint, or of CSI_ENDPOINT if none is given. Ends the command with a usage error if
 * there is no endpoint or if it is invalid.
 */
export function socketPathOf(command: Command, given: string | undefined): string {
  const endpoint = given ?? process.env['CSI_ENDPOINT'] ?? '';
  if (endpoint === '') {
    command.error('error: no endpoint is given: use --endpoint or set CSI_ENDPOINT');
  }
  try {
    return parseClientEndpoint(endpoint);
  } catch (error) {
    return command.error(`error: ${(error as Error).message}`);
  }
}
