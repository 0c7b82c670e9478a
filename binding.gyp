{
  "targets": [
    {
      "target_name": "blockdelta",
      "sources": [
        "native/addon.cc",
        "<!@(node -p \"require('fs').readdirSync('native/binding').filter(f=>f.endsWith('.cc')).map(f=>'native/binding/'+f).join(' ')\")",
        "<!@(node -p \"['base','scan','thin','device'].flatMap(d=>require('fs').readdirSync('native/'+d).filter(f=>f.endsWith('.cc')).map(f=>'native/'+d+'/'+f)).join(' ')\")"
      ],
      "include_dirs": [
        ".",
        "<!(node -p \"require('node-addon-api').include_dir\")"
      ],
      "defines": ["NAPI_VERSION=9", "NODE_ADDON_API_DISABLE_DEPRECATED", "NAPI_DISABLE_CPP_EXCEPTIONS", "NODE_API_SWALLOW_UNTHROWABLE_EXCEPTIONS", "_FILE_OFFSET_BITS=64"],
      "cflags": ["-Wall", "-Wextra", "-Werror", "-O2", "-fvisibility=hidden"],
      "cflags_cc": ["-std=c++17", "-fno-exceptions"],
      "cflags_cc!": ["-std=gnu++17", "-std=gnu++20", "-std=c++20"]
    },
    {
      "target_name": "blockdelta-confine",
      "type": "executable",
      "sources": [
        "<!@(node -p \"['base','confine'].flatMap(d=>require('fs').readdirSync('native/'+d).filter(f=>f.endsWith('.cc')).map(f=>'native/'+d+'/'+f)).join(' ')\")"
      ],
      "include_dirs": ["."],
      "defines": ["_FILE_OFFSET_BITS=64"],
      "cflags": ["-Wall", "-Wextra", "-Werror", "-O2", "-fvisibility=hidden"],
      "cflags_cc": ["-std=c++17", "-fno-exceptions"],
      "cflags_cc!": ["-std=gnu++17", "-std=gnu++20", "-std=c++20"],
      "ldflags!": ["-rdynamic"]
    },
    {
      "target_name": "blockdelta-guardian",
      "type": "executable",
      "sources": ["native/guardian/listen.cc", "native/guardian/main.cc"],
      "include_dirs": ["."],
      "cflags": ["-Wall", "-Wextra", "-Werror", "-O2"],
      "cflags_cc": ["-std=c++17", "-fno-exceptions", "-fno-rtti"],
      "cflags_cc!": ["-std=gnu++17", "-std=gnu++20", "-std=c++20"],
      "ldflags": ["-Wl,--as-needed"]
    }
  ]
}
