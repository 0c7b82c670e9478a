# Every night on every Nomad client: backs up all snapshots of the client that have no backup yet, and prunes. It needs
# node.nomad.hcl, and on each client /etc/blockdelta/rclone/rclone.conf. docs/nomad.md says more.
job "blockdelta-backup" {
  datacenters = ["*"]
  # To its end, on every client.
  type = "sysbatch"

  periodic {
    crons            = ["17 2 * * *"]
    prohibit_overlap = true
  }

  group "backup" {
    # The next night makes what is missing.
    restart {
      attempts = 0
      mode     = "fail"
    }

    task "backup" {
      driver = "docker"

      config {
        image = "registry.example/blockdelta:0.1.0"
        # It opens block devices that appear while it runs.
        privileged      = true
        readonly_rootfs = true
        # tini passes the end of the job on to all programs.
        entrypoint = ["/usr/bin/tini", "-g", "--"]
        args       = ["/opt/blockdelta/lib/node_modules/blockdelta/deploy/nightly-backup"]

        # The sockets of plugins, by allocation. /opt/nomad/data is the data_dir of the client.
        mount {
          type     = "bind"
          source   = "/opt/nomad/data/client/csi/plugins"
          target   = "/csi-plugins"
          readonly = true
        }

        # Where the plugin of node.nomad.hcl mounts, at the path that it has there. rslave: what it mounts is seen here.
        mount {
          type     = "bind"
          source   = "/opt/nomad/data/client/csi/node/blockdelta"
          target   = "/local/csi"
          readonly = false

          bind_options {
            propagation = "rslave"
          }
        }

        # A directory that rclone may write to: some remotes give a new token each time.
        mount {
          type     = "bind"
          source   = "/etc/blockdelta/rclone"
          target   = "/etc/blockdelta/rclone"
          readonly = false
        }

        # The spool, with room for the largest image.
        mount {
          type     = "bind"
          source   = "/var/lib/blockdelta-backup"
          target   = "/var/lib/blockdelta-backup"
          readonly = false
        }
      }

      env {
        REPOSITORY             = "rclone:private:${node.unique.name}"
        BACKUP                 = "--compress=zstd --spool=/var/lib/blockdelta-backup/images"
        PRUNE                  = "--keep-daily=7 --keep-weekly=4 --spool=/var/lib/blockdelta-backup/images"
        BLOCKDELTA_RUNTIME_DIR = "/local/csi/blockdelta-backup"
        RCLONE_CONFIG          = "/etc/blockdelta/rclone/rclone.conf"
      }

      # The socket of this client's plugin: its directory has the id of the allocation.
      template {
        destination = "local/endpoint.env"
        env         = true
        change_mode = "noop"
        data        = <<EOF
{{ range nomadService "blockdelta-node" }}{{ if eq (index .Tags 0) (env "node.unique.name") }}CSI_ENDPOINT=unix:///csi-plugins/{{ .AllocID }}/csi.sock{{ end }}{{ end }}
EOF
      }

      # The command removes its temporary volume then.
      kill_signal  = "SIGTERM"
      kill_timeout = "150s"

      resources {
        cpu        = 100
        memory     = 256
        memory_max = 2048
      }
    }
  }
}
