package main

import (
	"context"

	"github.com/sluice-metrics/sluice"
	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/scrape"
)

// openScraper makes the scraper of announced endpoints, if it is on.
func (p *dataPath) openScraper(context.Context) error {
	view := p.cluster.view
	if view == nil || !p.cfg.cluster.Announcements {
		return nil
	}
	applier := p.table.NewWriter()
	applier.Offline()
	p.scraper = scrape.New(scrape.Parts{
		Pods: view.AnnouncedPods, Sender: view.Sender, NodeOf: view.NodeOf, Shares: p.scrapeShares(),
		Applier: applier, Account: p.ledger.Open(scrape.Receiver),
		Explain: p.whyRejected, Rejections: p.rejections,
		Faulty: func(pod *metric.Pod, fault string) {
			view.AnnouncementEvent(pod, fault)
			p.log.Warn("a pod announces endpoints wrongly; no metric is taken from it",
				"namespace", pod.Namespace, "pod", pod.Name, "fault", fault)
		},
		Loopback: p.cluster.client.Loopback(),
		Agent:    "sluice/" + sluice.Version,
		Logger:   p.log,
	})
	return nil
}

// targets returns what lists the announced endpoints, whichever replica scrapes them; nil: nothing is scraped.
func (p *dataPath) targets() func(namespace string) []inspect.Target {
	if p.scraper == nil {
		return nil
	}
	return func(namespace string) []inspect.Target {
		return mergedTargets(p.scraper.Targets(namespace), p.replication.others, namespace)
	}
}
