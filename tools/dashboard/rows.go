package main

// each is the rate of a counter, summed by labels; byNamespace sums by the label "namespace" of the
// metric itself, which a scrape without honorLabels renames to exported_namespace.
func each(labels, metric string) string {
	return "sum by (" + labels + ") (rate(" + metric + "[$__rate_interval]))"
}

func byNamespace(function, labels, expr string) string {
	return function + " by (" + labels + `) (label_replace(` +
		expr + `, "namespace", "$1", "exported_namespace", "(.+)"))`
}

var (

	// bad is red from 1 on.
	bad = []step{{nil, "green"}, {1, "red"}}
)

var rows = []row{
	{"Overview", []panel{
		{title: "Version", look: name, queries: []query{{"count by (version) (sluice_build_info)", "{{version}}"}}},
		{title: "Processes",
			about: "Servers that were scraped: replicas, of all clusters and jobs that are chosen.", look: stat,
			queries: []query{{"count(sluice_store_persisting)", ""}}},
		{title: "Metrics missing",
			about: "Metrics that a HorizontalPodAutoscaler names and Sluice has no value for.", look: stat, steps: bad,
			words:   []word{{"0", "none", "green"}},
			queries: []query{{"sum(max without (instance, pod) (sluice_autoscaler_metric_missing)) or vector(0)", ""}}},
		{title: "Samples rejected",
			about: "Share of all samples. Samples that an ignore pattern drops do not count.",
			unit:  "percentunit", look: stat,
			steps: []step{{nil, "green"}, {0.01, "orange"}, {0.05, "red"}},
			queries: []query{
				{`sum(rate(sluice_samples_rejected_total{reason!="ignored"}[$__rate_interval]))` +
					` / sum(rate(sluice_samples_received_total[$__rate_interval]))`, ""}}},
		{title: "Series of the limit",
			about: "Of the process that is nearest to max-series, which the series of other replicas count against.", unit: "percentunit", look: stat,
			steps:   []step{{nil, "green"}, {0.8, "orange"}, {0.9, "red"}},
			queries: []query{{"max((sluice_series + (sum without (origin) (sluice_replica_series) or 0 * sluice_series)) / sluice_series_limit)", ""}}},
		{title: "Writes to disk",
			about: "Of all processes. No: a disk is too full or failing.", look: stat,
			words:   []word{{"1", "yes", "green"}, {"0", "no", "red"}},
			queries: []query{{"min(sluice_store_persisting)", ""}}},
		{title: "Cluster view",
			about: "Complete once all watched resources were read.", look: stat,
			words:   []word{{"1", "complete", "green"}, {"0", "incomplete", "red"}},
			queries: []query{{"min(sluice_cluster_synced)", ""}}},
		{title: "API server",
			about: "Time since it stopped answering about a resource.",
			unit:  "s", look: stat, steps: []step{{nil, "green"}, {1, "red"}},
			words: []word{{"0", "answers", "green"}}, queries: []query{{"max(sluice_cluster_unanswered_seconds)", ""}}},
	}},
	{"Autoscalers", []panel{
		{title: "Metrics of autoscalers",
			about: "Missing: no value, so the autoscaler does not scale down, or not at all. The Event " +
				"MetricMissing on it says why.",
			look:  states,
			words: []word{{"0", "has a value", "green"}, {"1", "missing", "red"}},
			queries: []query{
				{byNamespace("max", "namespace, hpa, metric", "sluice_autoscaler_metric_missing"),
					"{{namespace}}/{{hpa}} {{metric}}"}}},
		{title: "Autoscalers held back by pods",
			about: "Pods that push nothing, or whose series a limit rejects, change or may change what the " +
				"autoscaler decides. The Event MetricHeldBack on it names them.",
			look:  states,
			words: []word{{"0", "free", "green"}, {"1", "held back", "orange"}},
			queries: []query{
				{byNamespace("max", "namespace, hpa, metric", "sluice_autoscaler_metric_held_back"),
					"{{namespace}}/{{hpa}} {{metric}}"}}},
		{title: "Values that autoscalers read",
			about: "The mean of the pods that have a value, or the sum of the series.", width: 24,
			queries: []query{
				{byNamespace("max", "namespace, hpa, metric", "sluice_autoscaler_metric_value"),
					"{{namespace}}/{{hpa}} {{metric}}"}}},
	}},
	{"Samples", []panel{
		{title: "Samples received", unit: "cps",
			queries: []query{{each("receiver", "sluice_samples_received_total"), "{{receiver}}"}}},
		{title: "Accounting",
			about: "Received = applied + rejected + pending, exactly, whenever nothing is in flight.", unit: "cps",
			queries: []query{
				{"sum(rate(sluice_samples_received_total[$__rate_interval]))", "received"},
				{"sum(rate(sluice_samples_applied_total[$__rate_interval]))", "applied"},
				{"sum(rate(sluice_samples_rejected_total[$__rate_interval]))", "rejected"}}},
		{title: "Samples rejected, by reason",
			about: "METRICS.md has the meaning of each reason.", unit: "cps",
			queries: []query{{each("reason", "sluice_samples_rejected_total"), "{{reason}}"}}},
		{title: "Datagrams dropped by the kernel",
			about: "The socket's buffer was full: Sluice lacks CPU, or statsd-read-buffer is too small.", unit: "pps",
			queries: []query{{each("receiver", "sluice_kernel_drops_total"), "{{receiver}}"}}},
		{title: "Bytes received", unit: "Bps",
			queries: []query{{each("receiver", "sluice_received_bytes_total"), "{{receiver}}"}}},
		{title: "Datagrams, stream reads and request bodies", unit: "pps",
			queries: []query{{each("receiver", "sluice_packets_received_total"), "{{receiver}}"}}},
	}},
	{"Series and limits", []panel{
		{title: "New series rejected by a limit, by namespace",
			about: "A series that is pushed again is decided once.", unit: "cps",
			queries: []query{
				{byNamespace("sum", "namespace", "rate(sluice_limit_refusals_total[$__rate_interval])"),
					"{{namespace}}"}}},
		{title: "Metrics evicted by a limit",
			about: "For a metric that an autoscaler names, by a lowered limit, or because they were idle.", unit: "cps",
			queries: []query{{"sum(rate(sluice_limit_shed_metrics_total[$__rate_interval]))", "evicted"}}},
		{title: "Live series and their limit", queries: []query{
			{"sum by (pod) (sluice_series)", "series {{pod}}"},
			{"max(sluice_series_limit)", "limit of a process"},
			{"sum by (pod) (sluice_aliases)", "cached spellings {{pod}}"}}},
		{title: "Series that ended",
			about: "Expired or deleted.", unit: "cps",
			queries: []query{{"sum(rate(sluice_series_evicted_total[$__rate_interval]))", "series"}}},
	}},
	{"Pending samples and the cluster view", []panel{
		{title: "Pending samples",
			about: "Held until their sender is known: usually a pod that has just started.",
			queries: []query{
				{"sum by (receiver) (sluice_samples_pending)", "samples, {{receiver}}"},
				{"sum(sluice_pending_senders)", "unknown senders"}}},
		{title: "Pending samples rejected", unit: "cps", queries: []query{
			{"sum(rate(sluice_pending_expired_total[$__rate_interval]))", "sender not known in time"},
			{"sum(rate(sluice_pending_full_total[$__rate_interval]))", "limit of pending samples"}}},
		{title: "Memory of pending samples", unit: "bytes",
			queries: []query{{"sum by (pod) (sluice_pending_bytes)", "{{pod}}"}}},
		{title: "Pods and workloads in the cluster view",
			about: "Workloads: those whose pods have pushed counters or sets, so their other pods read 0.",
			queries: []query{
				{"max(sluice_cluster_pods)", "pods"}, {"max(sluice_workloads)", "workloads"}}},
		{title: "API server does not answer",
			about: "Time without an answer, by resource. 0: it answers.", unit: "s",
			queries: []query{{"max by (resource) (sluice_cluster_unanswered_seconds)", "{{resource}}"}}},
		{title: "Failed requests to the API server", unit: "cps",
			queries: []query{{each("resource", "sluice_cluster_watch_errors_total"), "{{resource}}"}}},
		{title: "Kubernetes Events",
			about:   "Suppressed: too many alike, or left to another replica. Dropped: could not be written.",
			unit:    "cps",
			queries: []query{{each("result", "sluice_cluster_events_total"), "{{result}}"}}},
	}},
	{"HTTP push", []panel{
		{title: "Requests", unit: "reqps",
			queries: []query{{each("method, code", "sluice_http_requests_total"), "{{method}} {{code}}"}}},
		{title: "Duration of requests", unit: "s", queries: []query{
			{"histogram_quantile(0.5, " + each("le", "sluice_http_request_duration_seconds_bucket") + ")", "p50"},
			{"histogram_quantile(0.99, " + each("le", "sluice_http_request_duration_seconds_bucket") + ")", "p99"}}},
		{title: "Requests in flight", queries: []query{{"sum by (pod) (sluice_http_requests_in_flight)", "{{pod}}"}}},
		{title: "Calls of OTLP over gRPC", unit: "reqps",
			queries: []query{{each("code", "sluice_otlp_grpc_requests_total"), "{{code}}"}}},
		{title: "Duration of calls of OTLP over gRPC", unit: "s", queries: []query{
			{"histogram_quantile(0.5, " + each("le", "sluice_otlp_grpc_request_duration_seconds_bucket") + ")", "p50"},
			{"histogram_quantile(0.99, " + each("le", "sluice_otlp_grpc_request_duration_seconds_bucket") + ")", "p99"}}},
		{title: "Calls of OTLP over gRPC in flight",
			queries: []query{{"sum by (pod) (sluice_otlp_grpc_requests_in_flight)", "{{pod}}"}}},
		{title: "Pushgateway groups",
			queries: []query{{"max(sluice_groups)", "groups"},
				{each("cause", "sluice_groups_ended_total"), "{{cause}} per second"}}},
		{title: "Memory of groups", unit: "bytes", queries: []query{{"sum by (pod) (sluice_group_bytes)", "{{pod}}"}}},
	}},
	{"Connections", []panel{
		{title: "Open connections",
			queries: []query{{"sum by (listener) (sluice_connections)", "{{listener}}"}}},
		{title: "Connections refused or closed for others",
			about: "A connection limit was reached, of all or of one address.", unit: "cps",
			queries: []query{
				{each("listener", "sluice_connections_refused_total"), "refused: {{listener}}"},
				{each("listener", "sluice_connections_yielded_total"), "closed for a new one: {{listener}}"},
				{"sum(rate(sluice_http_accept_errors_total[$__rate_interval]))", "accept failed: http"},
				{"sum(rate(sluice_otlp_grpc_accept_errors_total[$__rate_interval]))", "accept failed: otlp-grpc"},
				{"sum(rate(sluice_otlp_grpc_pinging_connections_total[$__rate_interval]))", "too many pings: otlp-grpc"}}},
	}},
	{"Credentials and certificates", []panel{
		{title: "Credentials",
			about: "Of HTTP requests. Unavailable: the check failed, for example because the API server " +
				"did not answer.",
			unit:    "reqps",
			queries: []query{{each("sort, result", "sluice_http_credentials_total"), "{{sort}}: {{result}}"}}},
		{title: "Rights asked of the API server", unit: "reqps",
			queries: []query{{each("answer", "sluice_http_rights_asked_total"), "{{answer}}"}}},
		{title: "Certificates expire in", unit: "s", queries: []query{
			{"min(sluice_http_certificate_expires_timestamp_seconds) - time()", "HTTP push"},
			{"min(sluice_replica_certificate_expires_timestamp_seconds) - time()", "replicas"},
			{"min(sluice_keda_certificate_expires_timestamp_seconds) - time()", "KEDA"},
			{"min(sluice_api_certificate_expires_timestamp_seconds) - time()", "metrics APIs"},
			{"min(sluice_agents_certificate_expires_timestamp_seconds) - time()", "agents"}}},
		{title: "Failed TLS handshakes", unit: "cps", queries: []query{
			{"sum(rate(sluice_http_tls_handshake_errors_total[$__rate_interval]))", "HTTP push"},
			{"sum(rate(sluice_otlp_grpc_tls_handshake_errors_total[$__rate_interval]))", "OTLP over gRPC"},
			{"sum(rate(sluice_replica_refused_connections_total[$__rate_interval]))", "replicas"},
			{"sum(rate(sluice_keda_refused_connections_total[$__rate_interval]))", "KEDA"}}},
	}},
	{"Export, KEDA and console", []panel{
		{title: "Pages of all series",
			about: "GET /metrics/series, by outcome. Left out: series of the last complete page whose name " +
				"and labels others had.",
			queries: []query{
				{each("outcome", "sluice_export_pages_total"), "{{outcome}} per second"},
				{"max(sluice_export_left_out_series)", "series left out"}}},
		{title: "StatsD lines relayed",
			about: "Dropped: the queue was full. Failed: the write failed.", unit: "cps",
			queries: []query{
				{each("target, outcome", "sluice_relay_lines_total"), "{{target}}: {{outcome}}"}}},
		{title: "StatsD lines that wait for a relay target", unit: "bytes",
			queries: []query{{"sum by (target) (sluice_relay_waiting_bytes)", "{{target}}"}}},
		{title: "Series to the OpenTelemetry Collector", unit: "cps",
			queries: []query{{each("outcome", "sluice_export_otlp_series_total"), "{{outcome}}"}}},
		{title: "KEDA", about: "Requests of KEDA's operator, and the activations sent to it.",
			queries: []query{
				{each("method, code", "sluice_keda_requests_total"), "{{method}}: {{code}}"},
				{"sum(rate(sluice_keda_activations_total[$__rate_interval]))", "activations"},
				{"sum(sluice_keda_streams)", "open streams"}}},
		{title: "Metrics of other providers",
			about: "Queries that Sluice forwards, by result. 0: the provider gave no answer when it was last asked.",
			queries: []query{
				{each("provider, result", "sluice_route_requests_total"), "{{provider}}: {{result}} per second"},
				{"histogram_quantile(0.99, sum by (le, provider) (rate(sluice_route_request_duration_seconds_bucket[$__rate_interval])))",
					"{{provider}}: seconds, p99"},
				{"min by (provider) (sluice_route_up)", "{{provider}}: up"}}},
		{title: "Autoscalers moved at the push",
			about: "By the annotation sluice.dev/instant: nudges of controllers, and whether they set the expected replicas.",
			queries: []query{
				{each("result", "sluice_nudges_total"), "{{result}} per second"},
				{each("answer", "sluice_nudge_answers_total"), "answered: {{answer}}"},
				{"histogram_quantile(0.99, sum by (le) (rate(sluice_nudge_answer_seconds_bucket[$__rate_interval])))",
					"seconds to the answer, p99"},
				{"max(sluice_instant_autoscalers)", "annotated autoscalers"}}},
		{title: "Endpoints that pods announce",
			about: "Scraped with the setting scrape. The list of targets says why one fails.",
			queries: []query{
				{"max by (state) (sluice_scrape_targets)", "{{state}}"},
				{each("result", "sluice_scrapes_total"), "{{result}} per second"},
				{"sum(increase(sluice_scrape_invalid_announcements_total[$__rate_interval]))", "invalid announcements"},
				{"sum(sluice_agent_scrape_targets)", "scraped by agents"}}},
		{title: "Workloads woken from zero",
			about: "By the annotation sluice.dev/wake. Forbidden: Sluice lacks the right to set the replicas.",
			queries: []query{
				{each("result", "sluice_wakes_total"), "{{result}} per second"},
				{"max(sluice_wake_armed)", "autoscalers at zero"}}},
		{title: "Console",
			about: "Pages that follow changes, and values recorded every second for their plots.",
			queries: []query{
				{"sum(sluice_console_streams)", "open pages"},
				{"sum(sluice_console_recorded_values)", "values recorded"}}},
	}},
	{"Metrics APIs", []panel{
		{title: "Requests", unit: "reqps",
			queries: []query{{each("group, code", "sluice_api_requests_total"), "{{group}} {{code}}"}}},
		{title: "Duration of requests, p99", unit: "s",
			queries: []query{
				{"histogram_quantile(0.99, " + each("le, group", "sluice_api_request_duration_seconds_bucket") + ")",
					"{{group}}"}}},
		{title: "Requests in flight", queries: []query{{"sum by (pod) (sluice_api_requests_in_flight)", "{{pod}}"}}},
		{title: "Reads of rates whose pusher is too slow",
			about:   "The counter is pushed at an interval longer than a third of the window, so its rate jumps.",
			unit:    "cps",
			queries: []query{{"sum(rate(sluice_slow_pusher_reads_total[$__rate_interval]))", "reads"}}},
	}},
	{"Memory and disk", []panel{
		{title: "Memory", unit: "bytes", queries: []query{
			{"sum by (part) (sluice_table_bytes)", "table: {{part}}"},
			{"sum by (pod) (process_resident_memory_bytes * on (cluster, job, instance) group_left () sluice_build_info)",
				"resident {{pod}}"}}},
		{title: "Memory is short",
			about:   "While seven eighths of the limit of Go's heap are in use, a namespace may use an eighth of each budget of requests in memory.",
			queries: []query{{"max by (pod) (sluice_memory_pressure)", "{{pod}}"}}},
		{title: "Age of the oldest unwritten change",
			about: "What a kill of the process would lose.", unit: "s",
			queries: []query{{"max by (pod) (sluice_store_lag_seconds)", "{{pod}}"}}},
		{title: "Disk free",
			about: "Less the space that the database may claim.", unit: "bytes",
			queries: []query{{"min by (pod) (sluice_store_disk_free_bytes)", "{{pod}}"}}},
		{title: "Bytes written to the database", unit: "Bps",
			queries: []query{{each("pod", "sluice_store_written_bytes_total"), "{{pod}}"}}},
		{title: "Flushes and fsyncs", unit: "cps", queries: []query{
			{"sum(rate(sluice_store_flushes_total[$__rate_interval]))", "flushes"},
			{"sum(rate(sluice_store_syncs_total[$__rate_interval]))", "fsyncs"},
			{"sum(rate(sluice_store_failures_total[$__rate_interval]))", "failed"}}},
		{title: "Time in flushes",
			about: "Of each second.", unit: "percentunit",
			queries: []query{{each("pod", "sluice_store_flush_seconds_total"), "{{pod}}"}}},
		{title: "Last start: time to restore", unit: "s", look: stat, width: 4,
			queries: []query{{"max(sluice_store_restore_seconds)", ""}}},
		{title: "Last start: blocks restored",
			about: "Of 1,024 series each.", look: stat, width: 8,
			queries: []query{{"sum by (result) (sluice_store_restored_blocks)", "{{result}}"}}},
		{title: "Last start: documents restored",
			about: "Pushed groups, and the metrics that each workload has counted.", look: stat, width: 6,
			queries: []query{{"sum by (result) (sluice_store_restored_documents)", "{{result}}"}}},
		{title: "Databases set aside",
			about: "Renamed because they could not be trusted.", look: stat, width: 6, steps: bad,
			words:   []word{{"0", "none", "green"}},
			queries: []query{{"sum(sluice_store_set_aside_total)", ""}}},
	}},
	{"Replicas", []panel{
		{title: "Other replicas known",
			queries: []query{{"sum by (pod) (sluice_replica_origins)", "{{pod}} knows"},
				{"sum by (pod) (sluice_replica_connections)", "connections of {{pod}}"}}},
		{title: "State of other replicas",
			about: "Standing still: nothing is heard from it.", look: states,
			words:   []word{{"0", "sends", "green"}, {"1", "stands still", "red"}},
			queries: []query{{"max by (pod, origin) (sluice_replica_standing_still)", "{{origin}}, heard by {{pod}}"}}},
		{title: "Age of another replica's state",
			about: "Half a second is usual.", unit: "s",
			queries: []query{{"max by (origin) (sluice_replica_lag_seconds)", "{{origin}}"}}},
		{title: "Samples received, by replica", unit: "cps",
			queries: []query{{each("pod", "sluice_samples_received_total"), "{{pod}}"}}},
		{title: "Series of a replica, as others hold them",
			queries: []query{{"max by (origin) (sluice_replica_series)", "{{origin}}"}}},
		{title: "Memory of another replica's state", unit: "bytes",
			queries: []query{{"max by (origin) (sluice_replica_bytes)", "{{origin}}"}}},
		{title: "Bytes between replicas", unit: "Bps", queries: []query{
			{each("pod", "sluice_replica_sent_bytes_total"), "{{pod}} sends"},
			{each("origin", "sluice_replica_received_bytes_total"), "received from {{origin}}"}}},
		{title: "Messages lost, dropped or rejected", unit: "cps", queries: []query{
			{each("origin", "sluice_replica_gaps_total"), "lost: of {{origin}}"},
			{each("origin", "sluice_replica_resyncs_total"), "blocks read again: of {{origin}}"},
			{each("pod", "sluice_replica_dropped_messages_total"), "dropped: by {{pod}}"},
			{each("pod", "sluice_replica_slow_consumers_total"), "too slow: {{pod}}"},
			{each("reason", "sluice_replica_rejected_total"), "rejected: {{reason}}"}}},
		{title: "Difference of clocks", unit: "s",
			queries: []query{{"max by (origin) (abs(sluice_replica_clock_offset_seconds))", "{{origin}}"}}},
		{title: "Writes Events for all",
			about: "One replica at a time holds the Lease.", look: states,
			words:   []word{{"0", "no", "text"}, {"1", "yes", "green"}},
			queries: []query{{"max by (pod) (sluice_replica_events_leader)", "{{pod}}"}}},
	}},
	{"Agents", []panel{
		{title: "Agents that the server hears", queries: []query{
			{"max(sluice_agents)", "connected"},
			{"max(sluice_agents_runs)", "remembered runs"},
			{"count(sluice_agent_connected == 0)", "agents without a connection"}}},
		{title: "Memory of agents' series at the server", unit: "bytes", queries: []query{
			{"max(sluice_agents_bytes)", "taken"},
			{"max(sluice_agents_limit_bytes)", "limit"}}},
		{title: "Streams and frames of agents", unit: "cps", queries: []query{
			{"sum(rate(sluice_agents_streams_total[$__rate_interval]))", "streams begun, at the server"},
			{"sum(rate(sluice_agent_connections_total[$__rate_interval]))", "connections, at agents"},
			{"sum(rate(sluice_agents_frames_total[$__rate_interval]))", "frames"}}},
		{title: "Samples through agents", unit: "cps", queries: []query{
			{"sum(rate(sluice_agent_samples_acknowledged_total[$__rate_interval]))", "on the server's disk"},
			{"sum(rate(sluice_agent_samples_dropped_total[$__rate_interval]))", "dropped"}}},
		{title: "Samples that agents hold", queries: []query{
			{"topk(10, sluice_agent_samples_held)", "{{pod}}"},
			{"sum(sluice_agent_frames_held)", "frames, of all"}}},
		{title: "Age of the oldest held frame", unit: "s",
			queries: []query{{"topk(10, sluice_agent_oldest_frame_seconds)", "{{pod}}"}}},
		{title: "Memory and series of agents", unit: "bytes", queries: []query{
			{"topk(10, sluice_agent_held_bytes)", "{{pod}}"},
			{"max(sluice_agent_series)", "most series of one"}}},
		{title: "Questions to kubelets", queries: []query{
			{each("result", "sluice_agent_kubelet_requests_total"), "{{result}} a second"},
			{"sum(rate(sluice_agent_kubelet_faults_total[$__rate_interval]))", "lines that cannot be, a second"},
			{"sum(sluice_agent_measured)", "containers and nodes"}}},
	}},
}
