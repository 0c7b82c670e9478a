/** Which capabilities a volume can be asked for: those of volumes/volume-rules.ts, with listed mount flags. */

import { CsiError } from '../base/errors.js';
import type { VolumeCapability } from '../domain/volume-capability.js';
import { assertMountFlags } from '../host/file-system-options.js';
import { isFileSystem } from '../host/file-systems.js';
import { unsupportedReason } from '../volumes/volume-rules.js';

/** INVALID_ARGUMENT for a capability that cannot be served. Mount flags are never told. */
export function assertServed(capability: VolumeCapability, field: string): void {
  const reason = unsupportedReason(capability);
  if (reason !== null) throw CsiError.invalidArgument(`${field}: ${reason}`);
  if (capability.accessType === 'block') return;
  const type = isFileSystem(capability.fsType) ? capability.fsType : null;
  assertMountFlags(capability.mountFlags, `${field}.mount.mount_flags`, type);
}

export function assertAllServed(capabilities: readonly VolumeCapability[], field: string): void {
  capabilities.forEach((capability, index) => {
    assertServed(capability, `${field}[${index}]`);
  });
}

/** Why one of the capabilities cannot be served; null if all can. */
export function unservedReason(capabilities: readonly VolumeCapability[]): string | null {
  const reason = capabilities.map(unsupportedReason).find((found) => found !== null);
  if (reason !== undefined) return reason;
  try {
    assertAllServed(capabilities, 'volume_capabilities');
    return null;
  } catch (thrown) {
    return CsiError.from(thrown).message;
  }
}
