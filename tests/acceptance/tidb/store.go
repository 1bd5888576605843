// A stand-alone unistore beside a real PD.
package main

import (
	"flag"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/pingcap/kvproto/pkg/deadlock"
	"github.com/pingcap/kvproto/pkg/tikvpb"
	"github.com/pingcap/log"
	"github.com/pingcap/tidb/store/mockstore/unistore/config"
	"github.com/pingcap/tidb/store/mockstore/unistore/pd"
	"github.com/pingcap/tidb/store/mockstore/unistore/server"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
)

func main() {
	pdAddr := flag.String("pd", "127.0.0.1:2379", "")
	addr := flag.String("addr", "127.0.0.1:20160", "")
	dir := flag.String("dir", "/tmp/unistore", "")
	flag.Parse()
	conf := config.DefaultConf
	conf.Server.PDAddr, conf.Server.StoreAddr = *pdAddr, *addr
	conf.Server.Raft = false
	conf.Engine.DBPath = *dir
	conf.Engine.VolatileMode = false
	_ = os.MkdirAll(*dir, 0o755)
	client, err := pd.NewClient([]string{*pdAddr}, "unistore")
	if err != nil {
		log.Fatal("pd", zap.Error(err))
	}
	store, err := server.New(&conf, client)
	if err != nil {
		log.Fatal("store", zap.Error(err))
	}
	listener, err := net.Listen("tcp", *addr)
	if err != nil {
		log.Fatal("listen", zap.Error(err))
	}
	rpc := grpc.NewServer(grpc.MaxRecvMsgSize(256<<20),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 2 * time.Second, PermitWithoutStream: true}))
	deadlock.RegisterDeadlockServer(rpc, store)
	tikvpb.RegisterTikvServer(rpc, store)
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGINT, syscall.SIGTERM)
	go func() { <-stop; rpc.Stop() }()
	log.Info("unistore serves", zap.String("addr", *addr))
	if err := rpc.Serve(listener); err != nil {
		log.Warn("serve", zap.Error(err))
	}
	store.Stop()
}
