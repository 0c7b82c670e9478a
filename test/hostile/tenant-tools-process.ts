/** A process that checks the ext4 on the device it is given, as the plugin does: for the test that kills it. */
import { checkFileSystem } from '../../src/driver/host/filesystem.js';

await checkFileSystem('ext4', process.argv[2] as string);
