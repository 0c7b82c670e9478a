# nomad volume create volume.hcl
id        = "try"
name      = "try"
type      = "csi"
plugin_id = "blockdelta"

capacity_min = "1GiB"
capacity_max = "1GiB"

capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}

mount_options {
  fs_type = "ext4"
}

# The node that gets the volume. Jobs that claim it run there. Without it the router chooses.
topology_request {
  required {
    topology {
      segments = {
        "blockdelta.csi/node" = "client-a"
      }
    }
  }
}

# As in docs/parameters.md, fixed and mutable ones.
parameters {
  readAheadKiB = "1024"
}
