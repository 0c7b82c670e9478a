# The controller of a cluster: the router, which passes each call to the client that has the volume. It holds no
# data and may run anywhere.
job "blockdelta-controller" {
  datacenters = ["*"]
  type        = "service"
  priority    = 90

  group "controller" {
    # Every instance answers for all nodes.
    count = 2

    constraint {
      operator = "distinct_hosts"
      value    = "true"
    }

    task "router" {
      driver = "docker"

      config {
        image           = "registry.example/blockdelta:0.1.0"
        args            = ["route"]
        readonly_rootfs = true
        cap_drop        = ["all"]

        # tls.crt, tls.key and ca.crt of the router.
        mount {
          type     = "bind"
          source   = "/etc/blockdelta/router-tls"
          target   = "/etc/blockdelta/tls"
          readonly = true
        }
      }

      csi_plugin {
        id        = "blockdelta"
        type      = "controller"
        mount_dir = "/csi"
      }

      env {
        CSI_ENDPOINT               = "unix:///csi/csi.sock"
        BLOCKDELTA_DRIVER_NAME     = "blockdelta.csi"
        BLOCKDELTA_ROUTE_NODES     = "file:/local/nodes.json"
        BLOCKDELTA_TLS_CERTIFICATE = "/etc/blockdelta/tls/tls.crt"
        BLOCKDELTA_TLS_KEY         = "/etc/blockdelta/tls/tls.key"
        BLOCKDELTA_TLS_CA          = "/etc/blockdelta/tls/ca.crt"
        BLOCKDELTA_TLS_PEER_NAME   = "blockdelta-node"
      }

      # The nodes, from Nomad's services. The router reads the file again when it changes, so nothing restarts.
      template {
        destination = "local/nodes.json"
        change_mode = "noop"
        data        = <<EOF
{"nodes":[{{ range $i, $node := nomadService "blockdelta-node" }}{{ if $i }},{{ end }}
{"id":"{{ index $node.Tags 0 }}","address":"{{ $node.Address }}:{{ $node.Port }}"}{{ end }}
]}
EOF
      }

      kill_signal  = "SIGTERM"
      kill_timeout = "30s"

      resources {
        cpu    = 100
        memory = 256
      }
    }
  }
}
