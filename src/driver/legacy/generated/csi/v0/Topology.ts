// Original file: proto/csi-v0.3.proto


export interface Topology {
  'segments'?: ({[key: string]: string});
}

export interface Topology__Output {
  'segments': ({[key: string]: string});
}
