import lightning as L

trainer = L.Trainer(max_epochs=10, accelerator="gpu", devices=2, num_nodes=2, strategy="ddp")
