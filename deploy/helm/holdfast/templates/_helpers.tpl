{{- define "holdfast.name" -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "holdfast.selector" -}}
app.kubernetes.io/name: holdfast
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "holdfast.labels" -}}
{{ include "holdfast.selector" . }}
app.kubernetes.io/version: {{ .root.Values.image.tag | default .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version }}
{{- end -}}

{{- /* What the command is about: --system or --app. A release runs exactly one. */ -}}
{{- define "holdfast.subject" -}}
{{- if and .Values.system .Values.app -}}
{{- fail "Set system or app, not both: a release runs one of them." -}}
{{- else if .Values.system -}}
"--system", {{ .Values.system | quote }}
{{- else if .Values.app -}}
"--app", {{ .Values.app | quote }}
{{- else -}}
{{- fail "Set system (an installed system) or app (yours, as module:app)." -}}
{{- end -}}
{{- end -}}

{{- define "holdfast.env" -}}
{{- $root := .root -}}
- { name: {{ .root.Values.database.variable }}, valueFrom: { secretKeyRef: { name: {{ .root.Values.database.secret }}, key: {{ .root.Values.database.key }} } } }
- { name: HOLDFAST_ENV, value: production }
- { name: HOLDFAST_DATA_DIR, value: /data }
- { name: HOLDFAST_HOST, value: 0.0.0.0 }
- { name: HOLDFAST_GRACE_SEC, value: {{ .root.Values.graceSeconds | quote }} }
- { name: HOLDFAST_AUTO_MIGRATE, value: {{ .root.Values.migrate.enabled | ternary "false" "auto" | quote }} }
{{- if .metrics }}
- { name: HOLDFAST_METRICS_PORT, value: {{ .root.Values.metrics.port | quote }} }
{{- end }}
{{- range $name, $value := .root.Values.env }}
- { name: {{ $name }}, value: {{ $value | toString | quote }} }
{{- end }}
{{- range $name, $from := .root.Values.secretEnv }}
- { name: {{ $name }}, valueFrom: { secretKeyRef: { name: {{ $from.secret }}, key: {{ $from.key }} } } }
{{- end }}
{{- end -}}

{{- /* The pod of every process. Takes root, component, args, metrics (whether it has a port of its own), resources. */ -}}
{{- define "holdfast.pod" -}}
metadata:
  labels:
    {{- include "holdfast.labels" . | nindent 4 }}
    {{- with .root.Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with .root.Values.podAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  automountServiceAccountToken: false
  {{- with .root.Values.serviceAccountName }}
  serviceAccountName: {{ . }}
  {{- end }}
  {{- with .root.Values.image.pullSecrets }}
  imagePullSecrets:
    {{- range . }}
    - name: {{ . }}
    {{- end }}
  {{- end }}
  restartPolicy: {{ .restart | default "Always" }}
  terminationGracePeriodSeconds: {{ add .root.Values.graceSeconds 10 }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 10001
    runAsGroup: 10001
    fsGroup: 10001
    seccompProfile: { type: RuntimeDefault }
  containers:
    - name: holdfast
      image: "{{ .root.Values.image.repository }}:{{ .root.Values.image.tag | default .root.Chart.AppVersion }}"
      imagePullPolicy: {{ .root.Values.image.pullPolicy }}
      args: [{{ .args }}]
      env:
        {{- include "holdfast.env" . | nindent 8 }}
      {{- if .port }}
      ports:
        - { name: {{ .portName }}, containerPort: {{ .port }} }
      startupProbe:
        httpGet: { path: /healthz, port: {{ .portName }} }
        periodSeconds: 2
        failureThreshold: 60
      livenessProbe:
        httpGet: { path: /healthz, port: {{ .portName }} }
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 6
      readinessProbe:
        httpGet: { path: /readyz, port: {{ .portName }} }
        periodSeconds: 5
        timeoutSeconds: 6
      {{- end }}
      {{- with .resources }}
      resources:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: { drop: [ALL] }
      volumeMounts:
        - { name: data, mountPath: /data }
        - { name: tmp, mountPath: /tmp }
  volumes:
    - name: data
      {{- toYaml (.root.Values.dataVolume | default (dict "emptyDir" dict)) | nindent 6 }}
    - { name: tmp, emptyDir: {} }
  {{- if .port }}
  topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "holdfast.selector" . | nindent 10 }}
  {{- end }}
  {{- with .root.Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .root.Values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}

{{- /* A Deployment. Takes what the pod takes, and replicas (none: something else scales it). */ -}}
{{- define "holdfast.deployment" -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ include "holdfast.name" .root }}-{{ .component }}
  labels:
    {{- include "holdfast.labels" . | nindent 4 }}
spec:
  {{- if ne (toString .replicas) "" }}
  replicas: {{ .replicas }}
  {{- end }}
  revisionHistoryLimit: 3
  strategy:
    rollingUpdate: { maxSurge: 1, maxUnavailable: 0 }
  selector:
    matchLabels:
      {{- include "holdfast.selector" . | nindent 6 }}
  template:
    {{- include "holdfast.pod" . | nindent 4 }}
{{- end -}}

{{- define "holdfast.disruption" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ include "holdfast.name" .root }}-{{ .component }}
  labels:
    {{- include "holdfast.labels" . | nindent 4 }}
spec:
  {{- toYaml .disruption | nindent 2 }}
  selector:
    matchLabels:
      {{- include "holdfast.selector" . | nindent 6 }}
{{- end -}}
