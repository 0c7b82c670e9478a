// Original file: proto/csi.proto

export const StorageHealthErrorType = {
  UNKNOWN_STORAGE_HEALTH_ERROR_TYPE: 'UNKNOWN_STORAGE_HEALTH_ERROR_TYPE',
  STORAGE_DEGRADED: 'STORAGE_DEGRADED',
  STORAGE_UNREACHABLE: 'STORAGE_UNREACHABLE',
} as const;

export type StorageHealthErrorType =
  | 'UNKNOWN_STORAGE_HEALTH_ERROR_TYPE'
  | 0
  | 'STORAGE_DEGRADED'
  | 1
  | 'STORAGE_UNREACHABLE'
  | 2

export type StorageHealthErrorType__Output = typeof StorageHealthErrorType[keyof typeof StorageHealthErrorType]
