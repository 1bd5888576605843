"""The nodes as PD's etcd shows them."""
