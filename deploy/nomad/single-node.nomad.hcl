# A cluster of one client: node and controller in one task, without router, port and certificates. With a second
# client Nomad sends calls to either, and they fail on the wrong one.
job "blockdelta" {
  datacenters = ["*"]
  type        = "system"
  # Jobs with volumes start after it.
  priority = 90

  group "blockdelta" {
    # Thaws or resumes at once what a plugin has frozen or suspended whose container is killed during a snapshot. /alloc
    # is shared by the tasks of this group.
    task "guardian" {
      driver = "docker"
      # It ends when the snapshots in progress have ended.
      kill_timeout = "300s"

      lifecycle {
        hook    = "prestart"
        sidecar = true
      }

      config {
        image      = "registry.example/blockdelta:0.1.0"
        entrypoint = ["/opt/blockdelta/bin/blockdelta-guardian"]
        args       = ["--listen", "/alloc/guardian.sock"]
        # It needs CAP_SYS_ADMIN alone, which clients allow only by name; it mounts nothing of the host.
        privileged      = true
        readonly_rootfs = true
      }

      resources {
        cpu    = 20
        memory = 16
      }
    }

    task "plugin" {
      driver = "docker"

      config {
        image = "registry.example/blockdelta:0.1.0"
        args  = ["serve"]
        # Mounts, loop devices and device-mapper. The clients' Docker plugin must allow it.
        privileged      = true
        readonly_rootfs = true

        # The catalogue and the pool, at their path on the host. rshared: the file system of an embedded pool
        # is mounted in it and must survive the container.
        mount {
          type     = "bind"
          source   = "/var/lib/blockdelta"
          target   = "/var/lib/blockdelta"
          readonly = false

          bind_options {
            propagation = "rshared"
          }
        }
      }

      # Nomad sets CSI_ENDPOINT, mounts /dev, and shares the staging directory with the host.
      csi_plugin {
        id        = "blockdelta"
        type      = "monolith"
        mount_dir = "/csi"
      }

      env {
        CSI_ENDPOINT                  = "unix:///csi/csi.sock"
        BLOCKDELTA_NODE_ID            = "${node.unique.name}"
        BLOCKDELTA_DRIVER_NAME        = "blockdelta.csi"
        BLOCKDELTA_STATE_DIR          = "/var/lib/blockdelta"
        BLOCKDELTA_GUARDIAN_SOCKET    = "/alloc/guardian.sock"
        BLOCKDELTA_MOUNT_PROPAGATION  = "required"
        BLOCKDELTA_POOLS              = "default=image:/var/lib/blockdelta/pools/default"
        BLOCKDELTA_EMBEDDED_POOL_SIZE = "100Gi"
      }

      # The plugin needs at most 35 seconds; the container then waits for resize2fs and btrfstune, which must not
      # stop half way. Clients cut it to max_kill_timeout, 30 seconds by default.
      kill_signal  = "SIGTERM"
      kill_timeout = "300s"

      resources {
        cpu    = 100
        memory = 256
        # Tools that check or grow a large file system need more than the plugin, and must not be killed.
        memory_max = 4096
      }
    }
  }
}
