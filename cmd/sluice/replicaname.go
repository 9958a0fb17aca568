package main

import (
	"context"

	"github.com/sluice-metrics/sluice/cmd/sluice/command"
	"github.com/sluice-metrics/sluice/internal/durable"
	"github.com/sluice-metrics/sluice/replica/natsbus"
	"github.com/sluice-metrics/sluice/store"
)

// A replica's name belongs to its data. Under another name it would publish the restored table as a
// new origin, while other replicas still hold the shadow of the former one: each value counts twice.

// nameReplica takes the replica's name from the data folder, unless a setting gives one.
func (p *dataPath) nameReplica(context.Context) error {
	if !p.cfg.natsbus.Enabled() {
		return nil
	}
	stored, err := store.ReadReplicaName(p.cfg.store.Dir)
	if err != nil {
		return p.folderFault(err)
	}
	if !natsbus.ValidName(stored) {
		return nil // no replica counted here yet, or none of this version, or a power cut emptied the file
	}
	p.replication.storedName = stored
	host := p.cfg.natsbus.ReplicaName()
	if p.cfg.natsbus.Name != "" || host == stored {
		return nil
	}
	p.log.Info("the replica has the name that its data was counted under, not the host's: under another name the data would count twice",
		"name", stored, "host", host, "folder", p.cfg.store.Dir)
	p.cfg.natsbus.Name = stored
	p.cfg.shareReplicaName()
	return nil
}

// keepReplicaName rejects a name under which restored series would count twice, and stores any other
// one. It precedes all messages to other replicas.
func (p *dataPath) keepReplicaName(context.Context) error {
	name, stored := p.cfg.replica().Name, p.replication.storedName
	if p.replication.bus == nil || name == stored {
		return nil
	}
	if stored != "" && p.table.Series() > 0 {
		return command.Usage(p.cfg.fault("replica-name", "is %q, and %s %s has data of the replica %q, which would count twice; "+
			"must be %q, or --data-dir the folder of %q or an empty one", name, p.cfg.as("data-dir"), p.cfg.store.Dir, stored, stored, name))
	}
	err := p.store.WriteReplicaName(name)
	if durable.IsFull(err) {
		p.log.Warn("the disk is full, so the data folder doesn't have the replica's name until the next start", "name", name)
		return nil
	}
	return err
}
