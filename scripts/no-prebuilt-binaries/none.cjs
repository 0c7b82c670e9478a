#!/usr/bin/env node
// Install scripts read `prebuild-install || node-gyp rebuild`: failing here is building from source.
console.error('prebuild-install: no prebuilt binaries; building from the locked source');
process.exitCode = 1;
