module hullmark.dev/bench/kube

go 1.25.0
