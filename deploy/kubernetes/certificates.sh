#!/bin/sh
# Makes the certificates of nodes, and those that an installation without cert-manager needs, with openssl alone,
# and prints the commands that put them into the cluster.
#
#   certificates.sh [--renew] DIRECTORY [NODE...]
#
# A second run with the same directory keeps the authorities and renews the certificates, also those of nodes
# that an earlier run named. With --renew it refuses a directory without authorities, which is not that of the first run. Whoever can read DIRECTORY can make every volume of the cluster disappear: keep it
# off shared disks.
set -eu

# Those of the installation, from the environment.
namespace=${NAMESPACE:-blockdelta}
driver=${DRIVER:-blockdelta.csi}
days=365

usage() { echo "usage: certificates.sh [--renew] DIRECTORY [NODE...]" >&2; exit 2; }
renews=false
if [ "${1-}" = --renew ]; then renews=true; shift; fi
[ $# -ge 1 ] || usage
case "$1" in -*) usage ;; esac
directory=$1
shift
# Other characters are percent-encoded in a certificate (docs/router.md), and a slash would lead elsewhere.
for node in "$@"; do
  case "$node" in
    "" | .* | *[!A-Za-z0-9._-]*)
      echo "certificates.sh: '$node' is not the name of a node: letters, digits, '.', '_' and '-'" >&2
      exit 2
      ;;
  esac
done
# New authorities would shut out every node that has certificates of the old ones.
if $renews && ! [ -e "$directory/blockdelta-ca/tls.key" ]; then
  echo "certificates.sh: $directory has no blockdelta-ca/tls.key to renew certificates with: name the directory of the first run" >&2
  exit 1
fi
command -v openssl >/dev/null || { echo "certificates.sh: openssl is not installed" >&2; exit 1; }
umask 077
mkdir -p "$directory"
cd "$directory"

# NAME: an authority for ten years, if there is none yet.
authority() {
  [ -e "$1/tls.key" ] && [ -e "$1/tls.crt" ] && return 0
  mkdir -p "$1"
  openssl ecparam -name prime256v1 -genkey -noout -out "$1/tls.key"
  openssl req -x509 -new -sha256 -key "$1/tls.key" -days 3650 -subj "/CN=$1" \
    -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign,cRLSign \
    -out "$1/tls.crt"
}

# NAME AUTHORITY USAGE ALTERNATIVE-NAMES: a new key and certificate, with its authority beside it.
certificate() {
  name=$1 signer=$2 usage=$3 names=$4
  mkdir -p "$name"
  openssl ecparam -name prime256v1 -genkey -noout -out "$name/tls.key.new"
  openssl req -new -sha256 -key "$name/tls.key.new" -subj "/CN=${name##*/}" -out "$name/request"
  printf '%s\n' basicConstraints=critical,CA:FALSE keyUsage=critical,digitalSignature \
    "extendedKeyUsage=$usage" "subjectAltName=$names" >"$name/extensions"
  openssl x509 -req -sha256 -in "$name/request" -CA "$signer/tls.crt" -CAkey "$signer/tls.key" \
    -set_serial "0x$(openssl rand -hex 16)" -days "$days" -extfile "$name/extensions" \
    -out "$name/tls.crt.new" 2>/dev/null
  rm "$name/request" "$name/extensions"
  cp "$signer/tls.crt" "$name/ca.crt"
  mv "$name/tls.key.new" "$name/tls.key"
  mv "$name/tls.crt.new" "$name/tls.crt"
}

# The names are BLOCKDELTA_TLS_PEER_NAME of the other side. Both authorities are separate: a certificate that
# backup programs trust must not open the nodes.
authority blockdelta-ca
for node in "$@"; do mkdir -p "nodes/$node"; done
for path in nodes/*/; do
  [ -d "$path" ] || continue
  node=$(basename "$path")
  certificate "nodes/$node" blockdelta-ca serverAuth "DNS:blockdelta-node,URI:blockdelta://$driver/node/$node"
done
certificate router blockdelta-ca clientAuth DNS:blockdelta-router
authority blockdelta-snapshot-metadata-ca
certificate snapshot-metadata blockdelta-snapshot-metadata-ca serverAuth \
  "DNS:blockdelta-snapshot-metadata.$namespace.svc,DNS:blockdelta-snapshot-metadata.$namespace.svc.cluster.local"

here=$(pwd)
echo "# The certificates end in $days days. Put them into the cluster:"
echo "kubectl create namespace $namespace --dry-run=client -o yaml | kubectl apply -f -"
for name in router snapshot-metadata; do
  echo "kubectl -n $namespace create secret generic blockdelta-$name-tls --from-file='$here/$name' --dry-run=client -o yaml | kubectl apply -f -"
done
echo "# Install the chart, with changed-block lists; choose the pools and name your image:"
set -- --set "'pools[0].kind=embedded'" --set image.repository=REGISTRY/blockdelta --set snapshotMetadata.enabled=true
[ "$driver" = blockdelta.csi ] || set -- "$@" --set "driverName=$driver"
echo "helm -n $namespace install blockdelta deploy/helm/blockdelta $* --set snapshotMetadata.caCert=$(base64 <snapshot-metadata/ca.crt | tr -d '\n')"
echo "# Put those of each node into /etc/blockdelta/tls on that node, and on no other, for root alone:"
for path in nodes/*/; do
  [ -d "$path" ] || continue
  node=$(basename "$path")
  echo "tar -C '$here/nodes/$node' -c . | ssh 'root@$node' 'mkdir -p /etc/blockdelta/tls && tar -C /etc/blockdelta/tls -x'"
done
