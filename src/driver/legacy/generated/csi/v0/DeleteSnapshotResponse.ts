// Original file: proto/csi-v0.3.proto


export interface DeleteSnapshotResponse {
}

export interface DeleteSnapshotResponse__Output {
}
