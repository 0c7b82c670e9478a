/** Calls that end with another status than OK, and their text. */
import { StatusCode } from '../../base/errors.js';

/** A call that ended with a status other than OK. */
export interface Refusal {
  readonly rpc: string;
  readonly code: number;
  readonly message: string;
  /** Whether the status has rich error details (grpc-status-details-bin). */
  readonly hasDetails: boolean;
}

export function statusName(code: number): string {
  return Object.entries(StatusCode).find(([, value]) => value === code)?.[0] ?? `code ${code}`;
}

export function describeRefusal({ code, message }: Refusal): string {
  return `${statusName(code)} (${message === '' ? 'no message' : message})`;
}
