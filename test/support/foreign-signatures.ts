/** First blocks of volumes with signatures that host tools could claim. */

/** An MBR with one partition of 1 MiB. */
export function partitionTable(): Buffer {
  const sector = Buffer.alloc(512);
  sector.writeUInt32LE(0x626c6b64, 440);
  sector.writeUInt8(0x83, 446 + 4);
  sector.writeUInt32LE(2048, 446 + 8);
  sector.writeUInt32LE(2048, 446 + 12);
  sector.writeUInt16LE(0xaa55, 510);
  return sector;
}

/** The header of a LUKS1 container with that UUID. */
export function luksHeader(uuid: string): Buffer {
  const header = Buffer.alloc(4096);
  header.write('LUKS\xba\xbe', 0, 'latin1');
  header.writeUInt16BE(1, 6);
  header.write('aes', 8);
  header.write('xts-plain64', 40);
  header.write('sha256', 72);
  header.writeUInt32BE(4096, 104);
  header.write(uuid, 168);
  return header;
}
