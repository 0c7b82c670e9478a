/** What a pool has to tell while nobody asks it: for the log. */
export interface PoolEvent {
  level: 'info' | 'warn' | 'error';
  message: string;
}

export type OnEvent = (event: PoolEvent) => void;
