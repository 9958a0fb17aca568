{{- /*
CEL of the ValidatingAdmissionPolicies. It repeats package policy as far as CEL can; docs/policy.md lists what differs. A budget of
1,000,000 units bounds each variable, and one of 10,000,000 a whole policy, so each spelling of the names has a variable of its own.
Nothing newer than Kubernetes 1.30 may be used.
*/ -}}

{{- /* "true" if the cluster has ValidatingAdmissionPolicies. */ -}}
{{- define "sluice.admission" -}}
{{- if semverCompare ">=1.30.0-0" .Capabilities.KubeVersion.Version -}}true{{- end -}}
{{- end -}}

{{- /* The window of a metric that is asked for without one: 1m, or the longest of config.windows. */ -}}
{{- define "sluice.defaultWindow" -}}
{{- $windows := get .Values.config "windows" | default "1m" -}}
{{- if kindIs "string" $windows -}}{{- $windows = splitList "," $windows -}}{{- end -}}
{{- $most := 0 -}}
{{- range $windows -}}
{{- $text := toString . | trim -}}
{{- if not (regexMatch "^([0-9]+[smhd])+$" $text) -}}
{{- fail (printf "config.windows: is %s; must be whole hours, minutes and seconds, as in 90s or 30m: admission policies read it" $text) -}}
{{- end -}}
{{- $seconds := 0 -}}
{{- range $part := regexFindAll "[0-9]+[smhd]" $text -1 -}}
{{- $unit := get (dict "s" 1 "m" 60 "h" 3600 "d" 86400) (regexFind "[smhd]" $part) -}}
{{- $seconds = add $seconds (mul (regexFind "[0-9]+" $part | atoi) $unit) -}}
{{- end -}}
{{- if eq (int $seconds) 60 -}}{{- $seconds = 1000000000 -}}{{- end -}}
{{- $most = max $most $seconds -}}
{{- end -}}
{{- if eq (int $most) 1000000000 -}}1m
{{- else if eq (mod $most 86400) 0 -}}{{ div $most 86400 }}d
{{- else if eq (mod $most 3600) 0 -}}{{ div $most 3600 }}h
{{- else if eq (mod $most 60) 0 -}}{{ div $most 60 }}m
{{- else -}}{{ $most }}s
{{- end -}}
{{- end -}}

{{- /* A label selector as a list of requirements, each a map of lists, so that all values have one type. */ -}}
{{- define "sluice.celRequirements" -}}
(has({{ . }}.matchLabels) ? {{ . }}.matchLabels.map(k, {'key': [string(k)], 'operator': ['In'], 'values': [string({{ . }}.matchLabels[k])]}) : [])
+ (has({{ . }}.matchExpressions) ? {{ . }}.matchExpressions.map(e, {'key': [string(e.key)], 'operator': [string(e.operator)], 'values': has(e.values) ? e.values.map(v, string(v)) : []}) : [])
{{- end -}}

{{- /*
The variables that compare params, a policy, with variables.names and variables.asked: for each metric, the name and the requirements of
the selector.
*/ -}}
{{- define "sluice.policyVariables" -}}
{{- $window := include "sluice.defaultWindow" . -}}
# the expressions of the rules, anchored
- name: patterns
  expression: >-
    params.spec.rules.map(r, '^(?:' + r.metric + ')$')
- name: denies
  expression: >-
    params.spec.rules.map(r, has(r.deny) && r.deny || !has(r.selector))
- name: required
  expression: >-
    params.spec.rules.map(r, !has(r.selector) ? [] : {{ include "sluice.celRequirements" "r.selector" | nindent 4 | trim }})
# name:stat:window in parts; the window in its largest unit
- name: heads
  expression: >-
    variables.names.map(n, n.matches('(?s)^.+:[1-9][0-9]{0,4}[smhd]$') ? n.substring(0, n.lastIndexOf(':')) : n)
- name: seconds
  expression: >-
    variables.indexes.map(i, variables.names[i] == variables.heads[i] ? 0 :
    [variables.names[i].substring(variables.names[i].lastIndexOf(':') + 1)].map(w,
    int(w.substring(0, w.size() - 1)) * {'s': 1, 'm': 60, 'h': 3600, 'd': 86400}[w.substring(w.size() - 1)])[0])
- name: windows
  expression: >-
    variables.seconds.map(s, s == 0 ? '' : s % 86400 == 0 ? ':' + string(s / 86400) + 'd' : s % 3600 == 0 ? ':' + string(s / 3600) + 'h' :
    s % 60 == 0 ? ':' + string(s / 60) + 'm' : ':' + string(s) + 's')
- name: bases
  expression: >-
    variables.heads.map(n, n.matches('(?s)^.+:(?:{{ include "sluice.stats" . | fromJsonArray | join "|" }})$') ? n.substring(0, n.lastIndexOf(':')) : n)
- name: stats
  expression: >-
    variables.indexes.map(i, variables.heads[i].substring(variables.bases[i].size()))
# every spelling that asks for the same values, once in all; '': none
{{- $spellings := list "variables.bases[i]" -}}
{{- $full := "variables.bases[i] + variables.stats[i]" -}}
{{- $spellings = append $spellings (printf "variables.stats[i] + variables.windows[i] == '' ? '' : %s + variables.windows[i]" $full) -}}
{{- $spellings = append $spellings (printf "variables.stats[i] == '' ? '' : variables.windows[i] == ':%s' ? %s : variables.windows[i] == '' && !(variables.stats[i] in [':total', ':last']) ? %s + ':%s' : ''" $window $full $full $window) -}}
{{- range $stat := list "rate" "last" "mean" "unique" -}}
{{- $full := printf "variables.bases[i] + ':%s'" $stat -}}
{{- $spellings = append $spellings (printf "variables.stats[i] != '' ? '' : %s + variables.windows[i]" $full) -}}
{{- $unasked := ternary "''" (printf "variables.windows[i] == '' ? %s + ':%s' : ''" $full $window) (eq $stat "last") -}}
{{- $spellings = append $spellings (printf "variables.stats[i] != '' ? '' : variables.windows[i] == ':%s' ? %s : %s" $window $full $unasked) -}}
{{- end }}
{{- $matches := list }}
{{- range $i, $spelling := $spellings }}
- name: matches{{ $i }}
  expression: >-
    variables.indexes.map(i, [{{ $spelling }}].map(n, n == '' ? [] : variables.patterns.map(p, n.matches(p)))[0])
{{- $matches = append $matches (printf "(variables.matches%d[i].size() > 0 && variables.matches%d[i][j])" $i $i) }}
{{- end }}
# the first rule that matches each metric, in a list; [] if none does. A name without a stat asks for the default of its kind,
# which nobody knows here, so there is a first rule for each default.
{{- range $k := until 4 }}
- name: hits{{ $k }}
  expression: >-
    variables.indexes.map(i, [{{ untilStep 0 64 1 | join ", " }}].filter(j, j < variables.patterns.size() &&
    ({{ concat (slice $matches 0 3) (slice $matches (add 3 (mul 2 $k) | int) (add 5 (mul 2 $k) | int)) | join " || " }})))
{{- end }}
# of each metric, the first rules that reject it: a rule denies, or one of its requirements does not hold for all that is asked for.
# Of a label, a request asks for: v, if no requirement excludes it; for finitely many values, if it has In or DoesNotExist; for
# label sets without the label, unless it has In or Exists.
- name: rejections
  expression: >-
    variables.indexes.map(i, [variables.hits0[i], variables.hits1[i], variables.hits2[i], variables.hits3[i]].filter(h, h.size() > 0 &&
    (variables.denies[h[0]] || variables.decidable[i] && !variables.required[h[0]].all(p, [variables.asked[i].filter(a, a.key == p.key)].all(q,
    p.operator == ['NotIn'] ? p.values.all(v, {{ include "sluice.celExcluded" . }}) :
    (p.operator == ['DoesNotExist'] || q.exists(a, a.operator in [['In'], ['Exists']])) && (p.operator == ['Exists'] ||
    q.exists(a, a.operator == ['DoesNotExist'] || a.operator == ['In'] && a.values.all(v, p.operator == ['In'] && v in p.values || {{ include "sluice.celExcluded" . }}))))))))
# the rejected metrics, by index
- name: rejected
  expression: >-
    variables.indexes.filter(i, variables.rejections[i].size() > 0)
{{- end -}}

{{- define "sluice.celExcluded" -}}
q.exists(b, b.operator == ['DoesNotExist'] || b.operator == ['In'] && !(v in b.values) || b.operator == ['NotIn'] && v in b.values)
{{- end -}}

{{- /* The stats of name:stat:window. A test compares them with the server's. */ -}}
{{- define "sluice.stats" -}}
{{- toJson (list "rate" "count" "total" "last" "mean" "min" "max" "sum" "p50" "p75" "p90" "p95" "p99" "p999" "unique") -}}
{{- end -}}

{{- /* Whether params concerns one of the readers: a list of the author and of others, as CEL. */ -}}
{{- define "sluice.celConcerned" -}}
!has(params.spec.subjects) || params.spec.subjects.size() == 0 || params.spec.subjects.exists(s,
s.kind == 'User' ? s.name in variables.readers :
s.kind == 'Group' ? s.name in variables.groups :
('system:serviceaccount:' + s.namespace + ':' + s.name) in variables.readers)
{{- end -}}
