# The plugin on every Nomad client that has a pool. The controller is controller.nomad.hcl; a cluster of one
# client runs single-node.nomad.hcl instead of both. docs/nomad.md says what clients need.
job "blockdelta-node" {
  datacenters = ["*"]
  type        = "system"
  # Jobs with volumes start after it.
  priority = 90

  update {
    # One client at a time. Allocations go on reading and writing while their plugin restarts.
    max_parallel = 1
  }

  group "node" {
    network {
      port "csi" {
        static = 9810
        to     = 9810
      }
    }

    # How the router finds the nodes: the first tag is the node id.
    service {
      name     = "blockdelta-node"
      provider = "nomad"
      port     = "csi"
      tags     = ["${node.unique.name}"]
    }

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
        ports           = ["csi"]

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

        # tls.crt, tls.key and ca.crt of a node.
        mount {
          type     = "bind"
          source   = "/etc/blockdelta/tls"
          target   = "/etc/blockdelta/tls"
          readonly = true
        }
      }

      # Nomad sets CSI_ENDPOINT, mounts /dev, and shares the staging directory with the host.
      csi_plugin {
        id        = "blockdelta"
        type      = "node"
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
        # For the router, and for nobody without a certificate with its name.
        BLOCKDELTA_LISTEN_ADDRESS  = "0.0.0.0:9810"
        BLOCKDELTA_TLS_CERTIFICATE = "/etc/blockdelta/tls/tls.crt"
        BLOCKDELTA_TLS_KEY         = "/etc/blockdelta/tls/tls.key"
        BLOCKDELTA_TLS_CA          = "/etc/blockdelta/tls/ca.crt"
        BLOCKDELTA_TLS_PEER_NAME   = "blockdelta-router"
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
