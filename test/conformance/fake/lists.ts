/** Pages of a list: a token is the sequence number after which a page starts. */
import { type Message, refusal } from './refusal.js';

const TOKEN = /^after-(\d+)$/;

export function page<T extends { sequence: number }>(
  request: Message,
  all: Iterable<T>,
  entryOf: (item: T) => Message,
): Message {
  const limit = Number(request['max_entries']);
  if (limit < 0) throw refusal('INVALID_ARGUMENT', `max_entries is negative: ${limit}`);
  const token = String(request['starting_token']);
  const match = TOKEN.exec(token);
  if (token !== '' && match === null) {
    throw refusal('ABORTED', `starting_token '${token}' is not one of ours: begin without a token`);
  }
  const after = Number(match?.[1] ?? 0);
  const rest = [...all].filter((item) => item.sequence > after);
  const shown = limit === 0 ? rest : rest.slice(0, limit);
  const isLast = shown.length === rest.length;
  return {
    entries: shown.map(entryOf),
    next_token: isLast ? '' : `after-${shown.at(-1)?.sequence}`,
  };
}
