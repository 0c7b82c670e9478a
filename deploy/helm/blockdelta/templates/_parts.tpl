{{/* What several templates need. */}}

{{- define "blockdelta.image" -}}
{{ required "image.repository is empty: build the image (docs/install-container.md), push it to a registry of yours, and add --set image.repository=REGISTRY/blockdelta" .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ with .Values.image.digest }}@{{ . }}{{ end }}
{{- end }}

{{/* The directory of the plugin's socket on the host. */}}
{{- define "blockdelta.pluginDirectory" -}}
{{- $directory := printf "%s/plugins/%s" .Values.kubeletDirectory .Values.driverName }}
{{- if gt (len $directory) 98 }}
{{- fail (printf "the socket of the plugin would be %s/csi.sock, but the kernel allows at most 107 characters: choose a shorter kubeletDirectory or driverName" $directory) }}
{{- end }}
{{- $directory }}
{{- end }}

{{/* Labels and annotations of a class: the context is the class, and own annotations beside those of the values. */}}
{{- define "blockdelta.classMetadata" -}}
labels:
  app.kubernetes.io/name: blockdelta
  {{- with .class.labels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with merge (dict) (.class.annotations | default dict) (.own | default dict) }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Labels of a pod: the context is its component. Selectors use them too, so they never change. */}}
{{- define "blockdelta.podLabels" -}}
app.kubernetes.io/name: blockdelta
app.kubernetes.io/component: {{ . }}
{{- end }}

{{/* The pods of the DaemonSet, as a peer of a NetworkPolicy. */}}
{{- define "blockdelta.nodePods" -}}
- podSelector:
    matchLabels:
      {{- include "blockdelta.podLabels" "node" | nindent 6 }}
{{- end }}

{{/* The text of a setting. YAML reads on and off as booleans. */}}
{{- define "blockdelta.settingValue" -}}
{{- if kindIs "bool" . }}{{ ternary "on" "off" . | quote }}{{ else if kindIs "string" . }}{{ quote . }}{{ else }}{{ int64 . | quote }}{{ end }}
{{- end }}

{{/* Settings of the plugin. */}}
{{- define "blockdelta.settings" -}}
{{- range $name, $value := .Values.settings }}
- name: {{ $name }}
  value: {{ include "blockdelta.settingValue" $value }}
{{- end }}
{{- $pools := list }}
{{- $of := dict "directory" list "embedded" list "thin" list }}
{{- range .Values.pools }}
{{- $name := .name | default (get (dict "directory" "data" "embedded" "default" "thin" "thin") .kind) }}
{{- $ledger := printf "/var/lib/blockdelta/pools/%s" $name }}
{{- if eq .kind "directory" }}
{{- $pools = append $pools (printf "%s=directory:%s" $name (.path | default "/srv/blockdelta")) }}
{{- else if eq .kind "embedded" }}
{{- $pools = append $pools (printf "%s=image:%s" $name $ledger) }}
{{- else }}
{{- $metadata := .metadataDevice | default "/dev/disk/by-partlabel/blockdelta-metadata" }}
{{- $data := .dataDevice | default "/dev/disk/by-partlabel/blockdelta-data" }}
{{- $pools = append $pools (printf "%s=thin:%s;metadata=%s;data=%s" $name $ledger $metadata $data) }}
{{- end }}
{{- $common := eq .kind "embedded" | ternary (.size | default "100Gi") (.discards | default "passdown") }}
{{- $_ := set $of .kind (append (get $of .kind) $common | uniq) }}
{{- end }}
{{- if empty $pools }}
{{- fail "pools is empty: name at least one, for example --set 'pools[0].kind=embedded'" }}
{{- end }}
{{- if or (gt (len $of.embedded) 1) (gt (len $of.thin) 1) }}
{{- fail "pools: all embedded pools have one size, and all thin pools one value of discards" }}
{{- end }}
- name: BLOCKDELTA_POOLS
  value: {{ join "," $pools | quote }}
{{- with first $of.embedded }}
# An image takes its blocks from the host as volumes are promised space, at most this size.
- name: BLOCKDELTA_EMBEDDED_POOL_SIZE
  value: {{ . | quote }}
{{- end }}
{{- with first $of.thin }}
# With keep, deltas from deleted snapshots survive a power failure, and the data device is not trimmed.
- name: BLOCKDELTA_THIN_DISCARDS
  value: {{ . }}
{{- end }}
{{- if .Values.router.enabled }}
# All addresses of the pod, where the router reaches it.
- name: BLOCKDELTA_LISTEN_ADDRESS
  value: {{ printf "%s:9810" .Values.listenHost | quote }}
- name: BLOCKDELTA_TLS_CERTIFICATE
  value: /etc/blockdelta/tls/tls.crt
- name: BLOCKDELTA_TLS_KEY
  value: /etc/blockdelta/tls/tls.key
# Who may call: holders of a certificate of this authority,
- name: BLOCKDELTA_TLS_CA
  value: /etc/blockdelta/tls/ca.crt
# with this name.
- name: BLOCKDELTA_TLS_PEER_NAME
  value: blockdelta-router
{{- end }}
{{- if .Values.transfers.enabled }}
{{- $ports := include "blockdelta.transferPorts" . | fromYaml }}
# Where other nodes read snapshots of this one.
- name: BLOCKDELTA_TRANSFER_PORTS
  value: {{ printf "%d-%d" (int $ports.port) (int $ports.endPort) | quote }}
{{- with .Values.transfers.rate }}
- name: BLOCKDELTA_TRANSFER_RATE
  value: {{ . | quote }}
{{- end }}
{{- end }}
{{- if .Values.podIoLimits.enabled }}
- name: BLOCKDELTA_CGROUP_ROOT
  value: /host/sys/fs/cgroup
{{- end }}
{{- if .Values.monitoring.enabled }}
# The listener has no authentication: the NetworkPolicy lets Prometheus in and nobody else.
- name: BLOCKDELTA_METRICS_ADDRESS
  value: {{ printf "%s:9811" .Values.listenHost | quote }}
{{- end }}
{{- end }}

{{/* The ports of transfers, as a NetworkPolicy has them. */}}
{{- define "blockdelta.transferPorts" -}}
{{- if not .Values.router.enabled }}
{{- fail "transfers.enabled needs router.enabled: the router arranges transfers between nodes" }}
{{- end }}
{{- $first := int .Values.transfers.firstPort }}
{{- $last := add $first (int .Values.transfers.count) -1 }}
{{- if and (le $first 9811) (ge $last 9808) }}
{{- fail (printf "transfers: the ports %d to %d meet 9808 to 9811, which the pod uses itself: choose another firstPort" $first $last) }}
{{- end }}
port: {{ $first }}
endPort: {{ $last }}
protocol: TCP
{{- end }}

{{/* The security context of a container without rights of its own. */}}
{{- define "blockdelta.withoutRights" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop:
    - ALL
{{- end }}

{{/* The probe of a sidecar that elects a leader: the context is the name of its port. */}}
{{- define "blockdelta.leaderProbe" -}}
livenessProbe:
  httpGet:
    path: /healthz/leader-election
    port: {{ . }}
  initialDelaySeconds: 10
  periodSeconds: 20
  timeoutSeconds: 10
{{- end }}

{{/* The environment variable NAMESPACE. */}}
{{- define "blockdelta.namespaceVariable" -}}
- name: NAMESPACE
  valueFrom:
    fieldRef:
      fieldPath: metadata.namespace
{{- end }}

{{/* What sidecars that talk to the API mount. */}}
{{- define "blockdelta.socketAndToken" -}}
- name: socket-directory
  mountPath: /csi
- name: api-token
  mountPath: /var/run/secrets/kubernetes.io/serviceaccount
  readOnly: true
{{- end }}

{{/* Gives a role to an account, the controller's if none is named: root, kind (Role or ClusterRole), name and account. */}}
{{- define "blockdelta.binding" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ .kind }}Binding
metadata:
  name: blockdelta-{{ .name }}
  {{- if eq .kind "Role" }}
  namespace: {{ .root.Release.Namespace }}
  {{- end }}
  labels:
    app.kubernetes.io/name: blockdelta
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ .kind }}
  name: blockdelta-{{ .name }}
subjects:
  - kind: ServiceAccount
    name: blockdelta-{{ .account | default "controller" }}
    namespace: {{ .root.Release.Namespace }}
{{- end }}
