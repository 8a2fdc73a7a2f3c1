import lightning

trainer = lightning.Trainer(max_epochs=10, accelerator="gpu", devices=2, strategy="ddp")
