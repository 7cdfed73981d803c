{{- define "qosproxy.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 52 | trimSuffix "-" }}
{{- else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "qosproxy.selector" -}}
app.kubernetes.io/name: qosproxy
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "qosproxy.labels" -}}
{{ include "qosproxy.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "qosproxy.image" -}}
{{ .Values.image.repository }}
{{- if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{/* The configuration file: what the shape sets, overridden by config. */}}
{{- define "qosproxy.config" -}}
{{- $shape := dict "listen" (dict "grpc" "0.0.0.0:50051" "http" "0.0.0.0:8080" "admin" "0.0.0.0:8081") }}
{{- if eq .Values.shape "sidecar" }}
{{- /* A sidecar is stopped after its application, so nobody has to notice. */}}
{{- $shape = dict
    "cassandra" (dict "connections_per_host" 1)
    "listen" (dict "grpc" "unix:///run/qosproxy/grpc.sock" "http" "" "admin" "0.0.0.0:8081")
    "shutdown" (dict "delay" "0s") }}
{{- end }}
{{- mergeOverwrite $shape (deepCopy .Values.config) | toYaml }}
{{- end }}

{{/*
Changes with the keys that are read once, and with whether tables ask replicas for their own
data, for which a proxy opens connections of their own. It reads a change of any other key by itself.
*/}}
{{- define "qosproxy.checksum" -}}
{{- $config := include "qosproxy.config" . | fromYaml -}}
checksum/qosproxy-config: {{ dict "cassandra" (omit $config.cassandra "username" "password_file" "tls" "dc_failover_keys") "listen" (omit $config.listen "max_connections") "admin" $config.admin "log" (omit ($config.log | default dict) "level") "shadow" $config.shadow "replicas" (dict "defaults" $config.defaults "tables" $config.tables | toJson | regexMatch "(?i)\"(node_local|replicas)\"") | toJson | sha256sum }}
{{- end }}

{{/* The annotations of the pod. */}}
{{- define "qosproxy.podAnnotations" -}}
{{- with .Values.podAnnotations }}
{{- toYaml . }}
{{ end }}
{{- include "qosproxy.checksum" . }}
{{- end }}

{{/* The port of .listener; empty for a unix socket or none. */}}
{{- define "qosproxy.port" -}}
{{- $address := get (get (include "qosproxy.config" .root | fromYaml) "listen") .listener }}
{{- if and $address (not (hasPrefix "unix:" $address)) }}{{ regexFind "[0-9]+$" $address }}{{ end }}
{{- end }}

{{/* What every container of the image has. */}}
{{- define "qosproxy.program" -}}
image: {{ include "qosproxy.image" . }}
{{- /* Kubernetes has the same default for a tag. */}}
{{- if ne .Values.image.pullPolicy "IfNotPresent" }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{- end }}
{{- if or .Values.rackFromZone .Values.env }}
env:
  {{- if .Values.rackFromZone }}
  - name: QOSPROXY_CASSANDRA_LOCAL_RACK
    valueFrom:
      fieldRef:
        fieldPath: metadata.labels['topology.kubernetes.io/zone']
  {{- end }}
  {{- with .Values.env }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  readOnlyRootFilesystem: true
  allowPrivilegeEscalation: false
  capabilities: {drop: [ALL]}
  seccompProfile: {type: RuntimeDefault}
{{- end }}

{{/* The part of the proxy's container that both shapes share. */}}
{{- define "qosproxy.container" -}}
name: qosproxy
args: [serve, --config, /etc/qosproxy/qosproxy.yaml]
{{ include "qosproxy.program" . }}
startupProbe:
  exec: {command: [/qosproxy, health, --live, --config, /etc/qosproxy/qosproxy.yaml]}
  periodSeconds: 1
  timeoutSeconds: 3
  failureThreshold: 30
{{- /* A sidecar that is not ready would take its application out of service. */}}
{{- if eq .Values.shape "standalone" }}
readinessProbe:
  httpGet: {path: /readyz, port: admin{{ include "qosproxy.scheme" . }}}
  periodSeconds: 2
{{- end }}
livenessProbe:
  httpGet: {path: /livez, port: admin{{ include "qosproxy.scheme" . }}}
  periodSeconds: 10
{{- end }}

{{/* The init container that holds the pod back until the configuration fits the cluster. */}}
{{- define "qosproxy.doctor" -}}
name: qosproxy-doctor
args: [doctor, --config, /etc/qosproxy/qosproxy.yaml]
{{ include "qosproxy.program" . }}
resources:
  requests: {cpu: 100m, memory: 64Mi}
  limits: {memory: 128Mi}
volumeMounts:
  {{- include "qosproxy.mounts" . | nindent 2 }}
{{- end }}

{{/* The mounts of the configuration and of the files that it names. */}}
{{- define "qosproxy.mounts" -}}
- {name: qosproxy-config, mountPath: /etc/qosproxy, readOnly: true}
{{- with .Values.volumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* The scheme of the probes when the admin listener has TLS. */}}
{{- define "qosproxy.scheme" -}}
{{- $listen := get (include "qosproxy.config" . | fromYaml) "listen" }}
{{- if dig "tls" "admin" "cert_file" "" $listen }}, scheme: HTTPS{{ end }}
{{- end }}
