import lightning

trainer = lightning.Trainer(max_epochs=10, accelerator="gpu", devices="auto", strategy="ddp")
