{{/*
The init containers, of which one is the proxy, for the pod of an application whose chart
has this one as dependency, with its own scope:

  initContainers:
    {{- include "qosproxy.sidecar.initContainers" .Subcharts.qosproxy | nindent 4 }}

The application mounts the volume qosproxy-socket at /run/qosproxy and calls
unix:///run/qosproxy/grpc.sock. Its pod needs an fsGroup, for the group of the socket.
*/}}
{{- define "qosproxy.sidecar.initContainers" -}}
{{- if .Values.doctor.enabled -}}
- {{- include "qosproxy.doctor" . | nindent 2 }}
{{ end -}}
- {{- include "qosproxy.sidecar.container" . | nindent 2 }}
{{- end }}

{{/* The proxy alone. */}}
{{- define "qosproxy.sidecar.container" -}}
{{- if ne .Values.shape "sidecar" }}{{ fail "qosproxy.sidecar.container: set qosproxy.shape to sidecar" }}{{ end -}}
{{ include "qosproxy.container" . }}
restartPolicy: Always
ports:
  - {name: admin, containerPort: {{ include "qosproxy.port" (dict "root" . "listener" "admin") }}}
resources:
  {{- .Values.resources | default (dict "requests" (dict "cpu" "500m" "memory" "128Mi") "limits" (dict "memory" "256Mi")) | toYaml | nindent 2 }}
volumeMounts:
  - {name: qosproxy-socket, mountPath: /run/qosproxy}
  {{- include "qosproxy.mounts" . | nindent 2 }}
{{- end }}

{{/* The volumes of that container. */}}
{{- define "qosproxy.sidecar.volumes" -}}
- name: qosproxy-config
  configMap: {name: {{ include "qosproxy.name" . }}}
- name: qosproxy-socket
  emptyDir: {medium: Memory, sizeLimit: 1Mi}
{{- with .Values.volumes }}
{{ toYaml . }}
{{- end }}
{{- end }}
