/** The settings that the plugin and the router have in common. */

export interface Setting {
  /** null: none, or one that depends on other settings. */
  readonly fallback: string | null;
  readonly meaning: string;
}

export const SERVICE_SETTINGS = {
  CSI_ENDPOINT: {
    fallback: null,
    meaning: 'socket to serve on, unix:///directory/name.sock (required)',
  },
  BLOCKDELTA_SOCKET_MODE: { fallback: '0600', meaning: 'permissions of the socket, octal' },
  BLOCKDELTA_DRIVER_NAME: { fallback: 'blockdelta.csi', meaning: 'name of the plugin' },
  BLOCKDELTA_TOPOLOGY_KEY: {
    fallback: null,
    meaning: "key of this node's topology segment (default: DRIVER_NAME/node)",
  },
  BLOCKDELTA_CSI_LEVEL: {
    fallback: '1.12',
    meaning: 'version of the CSI specification whose capabilities are advertised: 1.10 to 1.13',
  },
  BLOCKDELTA_LOG_LEVEL: { fallback: 'info', meaning: 'trace, debug, info, warn or error' },
  BLOCKDELTA_METRICS_ADDRESS: {
    fallback: null,
    meaning:
      'host:port on which /metrics, /healthz and /readyz are served, such as 127.0.0.1:9811 (default: off)',
  },
  BLOCKDELTA_SHUTDOWN_GRACE_SECONDS: {
    fallback: '20',
    meaning: 'time for calls in flight to end after SIGTERM',
  },
  BLOCKDELTA_MAX_CONNECTIONS: {
    fallback: '128',
    meaning: 'connections to the socket at once; at the limit an idle one is closed for a new one',
  },
  BLOCKDELTA_MAX_CALLS: {
    fallback: '1000',
    meaning: 'calls in flight at once; further ones are UNAVAILABLE',
  },
  BLOCKDELTA_MAX_STREAMS: {
    fallback: '64',
    meaning:
      'metadata streams at once; at the limit one whose client does not read is ended for a new one',
  },
  BLOCKDELTA_STREAM_STALL_SECONDS: {
    fallback: '60',
    meaning: 'how long the client of such a stream may read nothing before the stream is ended',
  },
} as const satisfies Readonly<Record<string, Setting>>;
