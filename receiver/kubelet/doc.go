// Package kubelet reads what the containers of a node and the node itself use, from the kubelet's /metrics/resource.
//
// The kubelet measures every 10 to 15 seconds, each container at a moment of its own, and answers with the newest
// measurement however often it is asked. So a Reading has the moment of its measurement.
//
// The page is text of the exposition format with timestamps, some 1 kB a container. It is read line by line: only the
// families that say usage are parsed.
package kubelet
