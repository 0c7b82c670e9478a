/** File systems that do not outlive the machine or the container: by f_type of statfs(2), what they are. */
export const VOLATILE_FILE_SYSTEMS: ReadonlyMap<bigint, string> = new Map([
  [0x01021994n, 'a tmpfs, which is lost when the machine stops'],
  [0x858458f6n, 'a ramfs, which is lost when the machine stops'],
  [0x794c7630n, 'an overlay, such as the root of a container, which is lost with the container'],
]);
